-- How a bucket group grows (leaves.lua has the layout): its rows double, its leaves split, their rows get longer.

local gsub = string.gsub

-- slots a row may have: so that a leaf just fits into a size in which servers (jemalloc) give out memory
local SLOTS = {FEWEST, 7, 9, 11, 14, 18, 23, 28, 37, 46, 56, 74, 93, 112, 149, 187, 224, 255}

local function rows_in(group)
  return ROWS * group.fold
end

-- Return the bytes of a leaf's string, and the records of rows that found no slot there. Such a row has no free slot.
local function parts_of_leaf(group, leaf)
  local key, width = leaf_key(group, leaf), slots_of(group, leaf) * RECORD
  local all, spilled = width > 0 and ask('GET', key) or '', {}
  if #all ~= rows_in(group) * width then foreign(key) end
  local flat = ask('HGETALL', spill_key(group, leaf))
  for f = 1, #flat, 2 do
    local row = tonumber(flat[f])
    if not row or row < 0 or row >= rows_in(group) or #flat[f + 1] % RECORD > 0 then foreign(spill_key(group, leaf)) end
    spilled[row] = flat[f + 1]
  end
  return all, spilled
end

-- Return the records of all rows of a leaf, and how many bytes these are.
local function rows_of(group, leaf)
  local rows, size, width = {}, 0, slots_of(group, leaf) * RECORD
  local all, spilled = parts_of_leaf(group, leaf)
  for row = 0, rows_in(group) - 1 do
    local from = row * width
    local records = sub(all, from + 1, from + used(all, from, width))
    if spilled[row] then records = records .. spilled[row] end
    rows[row], size = records, size + #records
  end
  return rows, size
end

-- Return how many slots rows of a leaf should have that hold so many records on average: few rows need more. Leaves
-- differ in when they want longer rows, as all groups fill up alike.
local function slots_for(group, leaf, average)
  local lot = tonumber(sub(redis.sha1hex(leaf_key(group, leaf)), 1, 2), 16) / 255
  local enough = average + (0.75 + lot) * math.sqrt(average)
  for s = 1, #SLOTS do
    if SLOTS[s] >= enough then return SLOTS[s] end
  end
  return SLOTS[#SLOTS]
end

local function write_head(group)
  redis.call('SET', group.key, packed_head(group))
  group.changed = false
end

local free = {}  -- slots, by how many bytes they are

local function room(size)
  local some = free[size]
  if not some then
    some = rep('\255', size)
    free[size] = some
  end
  return some
end

-- Write a leaf with these rows, of so many slots: one that was read just now, or a new one.
local function put_leaf(group, leaf, rows, slots)
  local width, parts, spilled = slots * RECORD, {}, {}
  for row = 0, rows_in(group) - 1 do
    local records = rows[row]
    local left = width - #records
    if left < 0 then
      spilled[#spilled + 1], spilled[#spilled + 2] = decimal(row), sub(records, width + 1)
      records, left = sub(records, 1, width), 0
    end
    parts[2 * row + 1], parts[2 * row + 2] = records, room(left)
  end
  local key, spill = leaf_key(group, leaf), spill_key(group, leaf)
  if slots_of(group, leaf) > 0 then redis.call('DEL', key) end
  if not redis.call('SET', key, table.concat(parts), 'NX') then foreign(key) end
  if leaf < group.leaves then redis.call('DEL', spill) end
  if #spilled > 0 then ask('HSET', spill, unpack(spilled)) end
  group.slots = sub(group.slots, 1, leaf) .. char(slots) .. sub(group.slots, leaf + 2)
end

-- Return two tables that have '' for each byte: one where this bit is set, one where it is not.
local function gone(bit_value)
  local set, unset = {}, {}
  for value = 0, 255 do
    if value % (2 * bit_value) >= bit_value then set[char(value)] = '' else unset[char(value)] = '' end
  end
  return set, unset
end

-- Return the records of a leaf's rows, those apart that have a bit of the place set, and how many there are in all.
local function halves(group, leaf, bit_value)
  local its_byte, stay, move = '(.)......', {}, {}
  if bit_value > 255 then its_byte, bit_value = '.(.).....', bit_value / 256 end
  local set, unset = gone(bit_value)
  local rows, size = rows_of(group, leaf)
  for row = 0, rows_in(group) - 1 do
    stay[row], move[row] = gsub(rows[row], its_byte, set), gsub(rows[row], its_byte, unset)
  end
  return stay, move, size / RECORD
end

-- Give the group's only leaf twice as many rows: half of a row's records go to a new one.
local function double(group)
  local rows, move, count = halves(group, 0, group.fold)
  local many = rows_in(group)
  for row = 0, many - 1 do rows[many + row] = move[row] end
  group.fold, group.limit = 2 * group.fold, 2 * group.limit
  put_leaf(group, 0, rows, slots_for(group, 0, count / rows_in(group)))
end

-- Give the group one more leaf: it takes half of another's records.
local function split(group)
  local half = group.span / 2
  local leaf, new = group.leaves - half, group.leaves
  local stay, move, count = halves(group, leaf, half * group.fold)
  local average = count / 2 / rows_in(group)
  put_leaf(group, leaf, stay, slots_for(group, leaf, average))
  put_leaf(group, new, move, slots_for(group, new, average))
  group.leaves, group.limit = group.leaves + 1, group.limit + LOAD * rows_in(group)
  if group.leaves == group.span then group.span = 2 * group.span end
end

-- Give a leaf longer rows if it has as many records as need them, and not only in the rows that are crowded.
local function lengthen(group, leaf)
  local is_split = leaf < group.leaves - group.span / 2 or leaf >= group.span / 2
  local share = (group.leaves == 1 and 1) or (is_split and 1 / group.span) or 2 / group.span
  local slots = slots_for(group, leaf, group.count * share / rows_in(group))
  if slots <= slots_of(group, leaf) then return end
  local width, rows = slots_of(group, leaf) * RECORD, {}
  local all, spilled = parts_of_leaf(group, leaf)
  for row = 0, rows_in(group) - 1 do
    local records = sub(all, row * width + 1, row * width + width)  -- with its free slots
    rows[row] = spilled[row] and records .. spilled[row] or records
  end
  put_leaf(group, leaf, rows, slots)
  write_head(group)
end

-- Let the groups that changed grow as their records need it, and write their heads.
local function save()
  local heads = {}
  for i = 1, #groups do
    local group = groups[i]
    while group.count > group.limit and group.leaves < MOST do
      if group.fold < MOST_FOLD then double(group) else split(group) end
      write_head(group)
    end
    if group.crowded then
      for leaf in pairs(group.crowded) do lengthen(group, leaf) end
    end
    if group.changed then
      heads[#heads + 1], heads[#heads + 2] = group.key, packed_head(group)
    end
  end
  if #heads > 0 then redis.call('MSET', unpack(heads)) end
end
