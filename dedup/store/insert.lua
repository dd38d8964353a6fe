-- Put documents into buckets, and say who else stands there: INSERT and READ of the claim protocol in one step.
--
-- KEYS[i]  the root of a bucket group, as in probe.lua
-- ARGV[i]  13-byte entries to add: tag (4), 1 for a SimHash quarter else 0, document id (8)
-- returns  for each group one string of 10-byte answers, as probe.lua: the other documents in each entry's bucket,
--          found as a probe finds them
-- cost     O(shard) a record; at most one shard split a record
--
-- Idempotent: a record that stands already is not added again. Values are written whole, because an appended
-- string would keep room for growth that a packed index cannot afford.

local LOAD = 48  -- records a shard at which the group gets one more
local MOST = 65536  -- shards a group: see shards.lua

-- include shards.lua

local answers = {}
for i = 1, #KEYS do
  local root, entries = KEYS[i], ARGV[i]
  local size = redis.call('HMGET', root, 'n', 'c')
  local shards, count = tonumber(size[1] or 1), tonumber(size[2] or 0)
  local before_shards, before_count = shards, count
  local level = level_of(shards)

  local held, dirty, found = {}, {}, {}
  local function load(shard)
    if not held[shard] then held[shard] = redis.call('GET', root .. ':' .. shard) or '' end
    return held[shard]
  end

  for q = 1, #entries / 13 do
    local tag, id = string.sub(entries, q * 13 - 12, q * 13 - 9), string.sub(entries, q * 13 - 7, q * 13)
    local shard = shard_of(tag, shards, level)
    local stored = load(shard)
    local mine = meet(found, stored, tag, string.byte(entries, q * 13 - 8) == 1, q - 1, id)
    if not mine then
      held[shard], dirty[shard] = stored .. tag .. id, true
      count = count + 1
    end
    if count > shards * LOAD and shards < MOST then
      -- linear hashing: shard (shards - level) gives the records whose next bit is set to the new one
      local old, stay, go = shards - level, {}, {}
      local stored_old = load(old)
      for r = 1, #stored_old, 12 do
        local one = string.sub(stored_old, r, r + 11)
        if struct.unpack('<I4', one) % (level * 2) == old then stay[#stay + 1] = one else go[#go + 1] = one end
      end
      held[old], dirty[old] = table.concat(stay), true
      held[shards], dirty[shards] = table.concat(go), true
      shards = shards + 1
      if shards == level * 2 then level = shards end
    end
  end

  for shard in pairs(dirty) do
    if held[shard] == '' then
      redis.call('DEL', root .. ':' .. shard)
    else
      redis.call('SET', root .. ':' .. shard, held[shard])
    end
  end
  if shards ~= before_shards or count ~= before_count or not size[1] then
    redis.call('HSET', root, 'n', shards, 'c', count)
  end
  answers[i] = table.concat(found)
end
return answers
