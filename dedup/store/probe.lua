-- PROBE: which documents stand in these buckets?
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  9-byte queries in that group, one after the other: 1 for a SimHash quarter else 0; tag u32; tag again, as
--          4 bytes to look for
-- returns  for each group one string of 6-byte answers: query (u16), document number (4)
-- cost     one look at each leaf, a plain find a query

-- include common.lua
-- include leaves.lua

local lists, where = open_lists('BI4c4', 9, 3)
local answers = {}
for i = 1, #KEYS do
  local list, found, crowded = lists[i], {}, groups[i].count > CROWDED
  for e = 1, #list, 3 do
    local hits, records, tag = {}, leaves[where[i][(e + 2) / 3]], list[e + 2]
    if list[e] == 1 then meet_near(hits, records, tag, crowded) else meet(hits, records, tag) end
    for h = 1, #hits do found[#found + 1] = struct.pack('<I2', (e - 1) / 3) .. hits[h] end
  end
  answers[i] = table.concat(found)
end
return answers
