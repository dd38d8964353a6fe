-- Which documents stand in these buckets?
--
-- KEYS[i]  the root of a bucket group: a hash {n = number of shards, c = number of records}
-- ARGV[i]  the 4-byte bucket tags asked for in that group, one after the other
-- returns  for each group one string of 10-byte answers: query number (u16), document id (8 bytes)
-- cost     one MGET a group; O(shard) bytes searched a tag, by a plain find
--
-- A shard is the string root:<number>, holding 12-byte records: tag (4), document id (8). Shards split one at a
-- time as the group grows (linear hashing), so that a shard stays at about the same length at any index size.

local answers = {}
for i = 1, #KEYS do
  local root, tags = KEYS[i], ARGV[i]
  local shards = tonumber(redis.call('HGET', root, 'n') or 0)
  local found = {}
  if shards > 0 then
    local level = 1
    while level * 2 <= shards do level = level * 2 end
    local names, slot, at = {}, {}, {}
    for q = 1, #tags / 4 do
      local tag = struct.unpack('<I4', tags, q * 4 - 3)
      local shard = tag % (level * 2)
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
    for q = 1, #tags / 4 do
      local records = values[at[q]]
      if records then
        local tag = string.sub(tags, q * 4 - 3, q * 4)
        local pos = string.find(records, tag, 1, true)
        while pos do
          if pos % 12 == 1 then
            found[#found + 1] = struct.pack('<I2', q - 1) .. string.sub(records, pos + 4, pos + 11)
            pos = string.find(records, tag, pos + 12, true)
          else
            pos = string.find(records, tag, pos + 1, true)
          end
        end
      end
    end
  end
  answers[i] = table.concat(found)
end
return answers
