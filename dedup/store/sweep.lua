-- Take documents out of a run of leaves, wherever they stand in them: for those whose buckets nobody knows any more.
--
-- KEYS[1]  the stem of a group
-- ARGV[1]  the first leaf;  ARGV[2]  how many
-- ARGV[3]  document numbers (4 bytes each)
-- returns  {records removed, the next leaf or -1 when there is none}
-- cost     O(records in these leaves). A split moves records to higher leaves only: going up misses none.

-- include common.lua
-- include cells.lua
-- include leaves.lua

open_groups(1)
local group, first = groups[1], tonumber(ARGV[1])
local last = math.min(first + ARGV[2], group.leaves) - 1
local wanted, removed = {}, 0
for n = 1, #ARGV[3], 4 do wanted[sub(ARGV[3], n, n + 3)] = true end
for number = first, last do
  local leaf = group.stem .. pack('>I2', number)
  local cells = {}
  each_block(leaf, function(cell) cells[cell] = true end)
  for cell in pairs(cells) do
    local records = records_of(leaf, cell)
    for at = #records - RECORD + 1, 1, -RECORD do  -- from the end: what takes a place was looked at
      if wanted[sub(records, at + 3, at + 6)] then
        records, removed = take_out(leaf, cell, records, at), removed + 1
      end
    end
  end
end
if removed > 0 then
  changed(group, -removed)
  save()
end
return {removed, last + 1 < group.leaves and last + 1 or -1}
