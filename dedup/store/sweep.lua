-- Take documents out of a run of leaves, wherever they stand in them: for those whose buckets nobody knows any more.
--
-- KEYS[1]  the stem of a group
-- ARGV[1]  the first leaf;  ARGV[2]  how many
-- ARGV[3]  document numbers (4 bytes each)
-- returns  {records removed, the next leaf or -1 when there is none}
-- cost     O(records in these leaves). A split moves records to higher leaves only: going up misses none.

-- include common.lua
-- include leaves.lua
-- include growth.lua

open_groups(1)
local group, first = groups[1], tonumber(ARGV[1])
local ends = group.split > 0 and 4 * group.span or group.span
local last = math.min(first + ARGV[2], ends) - 1
local wanted, removed = {}, 0
for n = 1, #ARGV[3], 4 do wanted[sub(ARGV[3], n, n + 3)] = true end

-- Return whether one of the numbers is anywhere in a leaf: a look at all of its bytes, which costs little.
local function may_have_some(leaf)
  local parts = ask('HVALS', spill_key(group, leaf))
  parts[#parts + 1] = ask('GET', leaf_key(group, leaf)) or ''
  local all = table.concat(parts)
  for number in pairs(wanted) do
    if find(all, number, 1, true) then return true end
  end
  return false
end

local function take_from(leaf)
  local rows, found = rows_of(group, leaf), 0
  for row = 0, rows_in(group) - 1 do
    local records, left = rows[row], {}
    for at = 1, #records, RECORD do
      if wanted[sub(records, at + 3, at + 6)] then found = found + 1 else left[#left + 1] = sub(records, at, at + 6) end
    end
    if #left * RECORD < #records then rows[row] = table.concat(left) end
  end
  if found == 0 then return end
  put_leaf(group, leaf, rows, 0, slots_of(group, leaf))
  group.count, group.changed, removed = group.count - found, true, removed + found
end

for leaf = first, last do
  if may_have_some(leaf) then take_from(leaf) end
end
save()
return {removed, last + 1 < ends and last + 1 or -1}
