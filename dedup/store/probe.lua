-- PROBE: which documents stand in these buckets?
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  5-byte queries in that group, one after the other: bucket tag (4), 1 for a SimHash quarter else 0
-- returns  for each group one string of 6-byte answers: query (u16), document number (4)
-- cost     one look at each leaf, a plain find a query

-- include common.lua
-- include leaves.lua

open_groups(#KEYS)
local where = {}
for i = 1, #KEYS do
  local group, queries = groups[i], ARGV[i]
  for e = 1, #queries, 5 do where[#where + 1] = locate(group, (struct.unpack('<I4', queries, e))) end
end
load()

local answers, asked = {}, 0
for i = 1, #KEYS do
  local queries, found = ARGV[i], {}
  for q = 0, #queries / 5 - 1 do
    asked = asked + 1
    local records = leaves[where[asked]]
    if records ~= '' then
      local hits, tag = {}, string.sub(queries, q * 5 + 1, q * 5 + 4)
      if string.byte(queries, q * 5 + 5) == 1 then meet_near(hits, records, tag) else meet(hits, records, tag) end
      for h = 1, #hits do found[#found + 1] = struct.pack('<I2', q) .. hits[h] end
    end
  end
  answers[i] = table.concat(found)
end
return answers
