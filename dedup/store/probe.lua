-- Which documents stand in these buckets?
--
-- KEYS[i]  the root of a bucket group: a hash {n = number of shards, c = number of records}
-- ARGV[i]  5-byte queries in that group, one after the other: bucket tag (4), 1 for a SimHash quarter else 0
-- returns  for each group one string of 10-byte answers: query number (u16), document id (8 bytes)
-- cost     one MGET a group; O(shard) bytes searched a query, by a plain find
--
-- A shard is the string root:<number>, holding 12-byte records: tag (4), document id (8). Shards split one at a
-- time as the group grows (linear hashing on the low bits of the tag), so that a shard stays at about the same length at
-- any index size. All that may match a quarter share the low 16 bits of the tag, and so the shard: a group has at most
-- 65,536 of them.

-- Append to `found` who stands in a bucket: (query number, id). A quarter (near) is matched by the low half of its tag,
-- the high halves may differ in one bit.
local function meet(found, records, tag, near, number, except)
  local key = near and string.sub(tag, 1, 2) or tag
  local high = near and struct.unpack('<I2', tag, 3)
  local mine = false
  local pos = string.find(records, key, 1, true)
  while pos do
    local step = 1
    if pos % 12 == 1 then
      step = 12
      local off = near and bit.bxor(high, (struct.unpack('<I2', records, pos + 2))) or 0
      if bit.band(off, off - 1) == 0 then
        local id = string.sub(records, pos + 4, pos + 11)
        if id ~= except then
          found[#found + 1] = struct.pack('<I2', number) .. id
        elseif off == 0 then
          mine = true
        end
      end
    end
    pos = string.find(records, key, pos + step, true)
  end
  return mine
end

local answers = {}
for i = 1, #KEYS do
  local root, queries = KEYS[i], ARGV[i]
  local shards = tonumber(redis.call('HGET', root, 'n') or 0)
  local found = {}
  if shards > 0 then
    local level = 1
    while level * 2 <= shards do level = level * 2 end
    local names, slot, at = {}, {}, {}
    for q = 1, #queries / 5 do
      local shard = struct.unpack('<I4', queries, q * 5 - 4) % (level * 2)
      if shard >= shards then shard = shard - level end
      if not slot[shard] then
        names[#names + 1] = root .. ':' .. shard
        slot[shard] = #names
      end
      at[q] = slot[shard]
    end
    local values = {}
    for first = 1, #names, 1000 do
      local part = redis.call('MGET', unpack(names, first, math.min(first + 999, #names)))
      for j = 1, #part do values[first + j - 1] = part[j] end
    end
    for q = 1, #queries / 5 do
      local records = values[at[q]]
      if records then
        meet(found, records, string.sub(queries, q * 5 - 4, q * 5 - 1), string.byte(queries, q * 5) == 1, q - 1)
      end
    end
  end
  answers[i] = table.concat(found)
end
return answers
