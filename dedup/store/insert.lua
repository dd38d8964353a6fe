-- INSERT and READ in one step: put documents into buckets, and say who else stands there.
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  11-byte entries to add: as the queries of probe.lua, with the document's number (4) behind each
-- returns  for each group one string of 6-byte answers, as probe.lua, the entry's own document left out
-- cost     a look-up and a write in a leaf an entry; a group that has four times as many records as before grows
--
-- Idempotent: a record that stands already is not added again.

-- include common.lua
-- include leaves.lua
-- include growth.lua

open_groups(#KEYS)
local answers = {}
for i = 1, #KEYS do
  local list, found, group = fields(ARGV[i], 'I2I2c3c4', 11), {}, groups[i]
  for e = 1, #list, 4 do
    local hits, place, tag, number = {}, list[e], list[e + 2], list[e + 3]
    local leaf, row = spot_of(group, place, list[e + 1])
    local records, size = records_of(group, leaf, row)
    meet(hits, records, size, place, tag)
    for h = 1, #hits do
      if hits[h] ~= number then found[#found + 1] = pack('<I2', (e - 1) / 4) .. hits[h] end
    end
    if not position(records, tag .. number) then append(group, leaf, row, records, size, tag, number) end
  end
  answers[i] = table.concat(found)
end
save()
return answers
