-- What probe, insert and remove share: how a bucket group is laid out.
--
-- A shard is the string root:<number>, holding 12-byte records: tag (4), document id (8). Shards split one at a
-- time as the group grows (linear hashing on the low bits of the tag), so that a shard stays at about the same length at
-- any index size. All that may match a quarter share the low 16 bits of the tag, and so the shard: a group has at most
-- 65,536 of them.

local function level_of(shards)
  local level = 1
  while level * 2 <= shards do level = level * 2 end
  return level
end

local function shard_of(tag, shards, level)
  local shard = struct.unpack('<I4', tag) % (level * 2)
  if shard >= shards then shard = shard - level end
  return shard
end

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
