-- Which documents stand in these buckets?
--
-- KEYS[i]  the root of a bucket group: a hash {n = number of shards, c = number of records}
-- ARGV[i]  5-byte queries in that group, one after the other: bucket tag (4), 1 for a SimHash quarter else 0
-- returns  for each group one string of 10-byte answers: query number (u16), document id (8 bytes)
-- cost     one MGET a group; O(shard) bytes searched a query, by a plain find

-- include shards.lua

local answers = {}
for i = 1, #KEYS do
  local root, queries = KEYS[i], ARGV[i]
  local shards = tonumber(redis.call('HGET', root, 'n') or 0)
  local found = {}
  if shards > 0 then
    local level = level_of(shards)
    local names, slot, at = {}, {}, {}
    for q = 1, #queries / 5 do
      local shard = shard_of(string.sub(queries, q * 5 - 4, q * 5 - 1), shards, level)
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
