-- Take documents out of their buckets: what a loser does, and forget.
--
-- KEYS[i]  the root of a bucket group, as in probe.lua
-- ARGV[i]  13-byte entries to remove, as in insert.lua
-- returns  how many were there
-- cost     O(shard) a record

-- include shards.lua

local removed = 0
for i = 1, #KEYS do
  local root, entries = KEYS[i], ARGV[i]
  local shards = tonumber(redis.call('HGET', root, 'n') or 0)
  if shards > 0 then
    local level = level_of(shards)
    local gone = 0
    for q = 1, #entries / 13 do
      local record = string.sub(entries, q * 13 - 12, q * 13 - 9) .. string.sub(entries, q * 13 - 7, q * 13)
      local name = root .. ':' .. shard_of(record, shards, level)
      local stored = redis.call('GET', name) or ''
      local pos = string.find(stored, record, 1, true)
      while pos and pos % 12 ~= 1 do pos = string.find(stored, record, pos + 1, true) end
      if pos then
        local left = string.sub(stored, 1, pos - 1) .. string.sub(stored, pos + 12)
        if left == '' then redis.call('DEL', name) else redis.call('SET', name, left) end
        gone = gone + 1
      end
    end
    if gone > 0 then redis.call('HINCRBY', root, 'c', -gone) end
    removed = removed + gone
  end
end
return removed
