-- How a bucket group grows (leaves.lua has the layout): it folds, its leaves split, their rows get longer.

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
  local enough = average + (1.5 + lot) * math.sqrt(average)
  for s = 1, #SLOTS do
    if SLOTS[s] >= enough then return SLOTS[s] end
  end
  return SLOTS[#SLOTS]
end

local function write_head(group)
  redis.call('SET', group.key, packed_head(group))
  group.changed = false
end

-- Write a leaf of so many slots a row: one that was read just now, or a new one. `spilled` are the rows, and records of
-- them, that find no slot.
local function write_leaf(group, leaf, slots, all, spilled)
  local key, spill = leaf_key(group, leaf), spill_key(group, leaf)
  if slots_of(group, leaf) > 0 then redis.call('DEL', key, spill) end
  redis.call('SET', key, all)
  for first = 1, #spilled, 2000 do  -- a call takes some thousand arguments
    ask('HSET', spill, unpack(spilled, first, math.min(first + 1999, #spilled)))
  end
  group.slots = sub(group.slots, 1, leaf) .. char(slots) .. sub(group.slots, leaf + 2)
end

-- Write a leaf with the rows from a first one on, of so many slots.
local function put_leaf(group, leaf, rows, first, slots)
  local width, parts, spilled, free = slots * RECORD, {}, {}, {}
  for left = 0, width, RECORD do free[left] = rep('\255', left) end
  for row = 0, rows_in(group) - 1 do
    local records = rows[first + row]
    local left = width - #records
    if left < 0 then
      spilled[#spilled + 1], spilled[#spilled + 2] = decimal(row), sub(records, width + 1)
      records, left = sub(records, 1, width), 0
    end
    parts[2 * row + 1], parts[2 * row + 2] = records, free[left]
  end
  write_leaf(group, leaf, slots, table.concat(parts), spilled)
end

-- Part so many rows in four: the two bits of the place from `divisor` up say to which part a record goes. The rows of
-- part p begin at p * many.
local function part(rows, many, divisor)
  local at_byte, way_of, parts, counts, parted = 0, {}, {[0] = {}, {}, {}, {}}, {}, {}
  if divisor > 255 then at_byte, divisor = 1, divisor / 256 end
  for value = 0, 255 do way_of[value] = math.floor(value / divisor) % 4 end
  for row = 0, many - 1 do
    local records = rows[row]
    for way = 0, 3 do counts[way] = 0 end
    for at = 1, #records, RECORD do
      local way = way_of[byte(records, at + at_byte)]
      local count = counts[way] + 1
      parts[way][count], counts[way] = sub(records, at, at + RECORD - 1), count
    end
    for way = 0, 3 do parted[way * many + row] = table.concat(parts[way], '', 1, counts[way]) end
  end
  return parted
end

-- Give the group's only leaf four times as many rows: each becomes four.
local function fold(group)
  local rows, size = rows_of(group, 0)
  rows = part(rows, rows_in(group), group.fold)
  group.fold, group.limit = 4 * group.fold, 4 * group.limit
  put_leaf(group, 0, rows, 0, slots_for(group, 0, size / RECORD / rows_in(group)))
end

-- Stop before anything is moved if something that is not ours stands where a new leaf would be.
local function keep_clear(group, leaf)
  for _, key in ipairs({leaf_key(group, leaf), spill_key(group, leaf)}) do
    if redis.call('EXISTS', key) == 1 then foreign(key) end
  end
end

-- Make four leaves of the first one that is not yet split in this round.
local function split(group)
  local leaf, many, span = group.split, rows_in(group), group.span
  for way = 1, 3 do keep_clear(group, leaf + way * span) end
  local rows, size = rows_of(group, leaf)
  local average = size / RECORD / 4 / many
  rows = part(rows, many, span * group.fold)
  group.slots = group.slots .. rep('\0', 4 * span - #group.slots)
  for way = 0, 3 do
    local new = leaf + way * span
    put_leaf(group, new, rows, way * many, slots_for(group, new, average))
  end
  group.split = leaf + 1
  if group.split == span then group.span, group.split, group.limit = 4 * span, 0, 4 * group.limit end
end

-- Let a group take a step to four times its rows if it has as many records as need them. All groups and all leaves grow
-- by one such step for each time that they fill up four times: a record is moved seldom.
local function grow(group)
  if group.count <= group.limit then return end
  if group.fold < MOST_FOLD then
    fold(group)
  elseif group.span < MOST then
    split(group)
  else
    return
  end
  write_head(group)
end

-- Give a leaf longer rows if it has as many records as need them, and not only in the rows that are crowded. What is in
-- its slots is not looked at.
local function lengthen(group, leaf)
  local leaves = (leaf < group.split or leaf >= group.span) and 4 * group.span or group.span  -- as many would be alike
  local slots, before = slots_for(group, leaf, group.count / leaves / rows_in(group)), slots_of(group, leaf)
  if slots <= before then return end
  local all, spilled = parts_of_leaf(group, leaf)
  local width, more, left = before * RECORD, (slots - before) * RECORD, {}
  for row, records in pairs(spilled) do
    if #records > more then left[#left + 1], left[#left + 2] = decimal(row), sub(records, more + 1) end
  end
  -- one call for all rows: no string a row
  write_leaf(group, leaf, slots, (gsub(all, rep('.', width), '%0' .. rep('\255', more))), left)
  for row, records in pairs(spilled) do
    call_server('SETRANGE', leaf_key(group, leaf), decimal(row * (width + more) + width), sub(records, 1, more))
  end
  write_head(group)
end

-- Let the groups grow as their records need it, and write the heads of those that changed.
local function save()
  local heads = {}
  for i = 1, #groups do
    local group = groups[i]
    grow(group)
    if group.crowded then
      for leaf in pairs(group.crowded) do lengthen(group, leaf) end
    end
    if group.changed then
      heads[#heads + 1], heads[#heads + 2] = group.key, packed_head(group)
    end
  end
  if #heads > 0 then redis.call('MSET', unpack(heads)) end
end
