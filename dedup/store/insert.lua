-- INSERT and READ in one step: put documents into buckets, and say who else stands there.
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  13-byte entries to add: as the queries of probe.lua, with the document's number (4) behind each
-- returns  for each group one string of 6-byte answers, as probe.lua, the entry's own document left out
-- cost     as a probe; a leaf that gets a record is written whole; each 48th record of a group splits a leaf
--
-- Idempotent: a record that stands already is not added again. Documents of one call don't see each other.

-- include common.lua
-- include leaves.lua

local lists, where = open_lists('BI4c4c4', 13, 4)
local answers, new = {}, {}
for i = 1, #KEYS do
  local list, found, crowded = lists[i], {}, groups[i].count > CROWDED
  for e = 1, #list, 4 do
    local index, hits, tag, number, fresh = where[i][(e + 3) / 4], {}, list[e + 2], list[e + 3], true
    if list[e] == 1 then meet_near(hits, leaves[index], tag, crowded) else meet(hits, leaves[index], tag) end
    for h = 1, #hits do
      if hits[h] ~= number then
        found[#found + 1] = struct.pack('<I2', (e - 1) / 4) .. hits[h]
      elseif stands(leaves[index], tag .. number) then
        fresh = false
      end
    end
    if fresh then new[#new + 1] = {groups[i], index, tag .. number} end
  end
  answers[i] = table.concat(found)
end
for n = 1, #new do
  local group, index, record = unpack(new[n])
  leaves[index], dirty[index] = leaves[index] .. record, true
  group.count, group.changed = group.count + 1, true
end
save()
return answers
