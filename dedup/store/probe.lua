-- PROBE: which documents stand in these buckets?
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  7-byte queries in that group, one after the other: place u16; row u16; tag (3)
-- returns  for each group one string of 6-byte answers: query (u16), document number (4)
-- cost     one look-up in a leaf a query

-- include common.lua
-- include leaves.lua

open_groups(#KEYS)
local answers = {}
for i = 1, #KEYS do
  local list, found, group = fields(ARGV[i], 'I2I2c3', 7), {}, groups[i]
  for e = 1, #list, 3 do
    local hits, place = {}, list[e]
    local records, size = records_of(group, spot_of(group, place, list[e + 1]))
    meet(hits, records, size, place, list[e + 2])
    for h = 1, #hits do found[#found + 1] = pack('<I2', (e - 1) / 3) .. hits[h] end
  end
  answers[i] = table.concat(found)
end
return answers
