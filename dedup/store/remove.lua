-- Take documents out of their buckets: what a loser does.
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  11-byte entries to remove, as in insert.lua
-- returns  how many were there
-- cost     a look-up and a write in a leaf an entry

-- include common.lua
-- include leaves.lua
-- include growth.lua

open_groups(#KEYS)
local removed = 0
for i = 1, #KEYS do
  local list, group = fields(ARGV[i], 'I2I2c3c4', 11), groups[i]
  for e = 1, #list, 4 do
    local leaf, row = spot_of(group, list[e], list[e + 1])
    local records, size = records_of(group, leaf, row)
    local at = position(records, list[e + 2] .. list[e + 3])
    if at then
      take_out(group, leaf, row, records, size, at)
      removed = removed + 1
    end
  end
end
save()
return removed
