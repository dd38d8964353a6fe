-- What the scripts share that touch buckets: how a bucket group is laid out, and its life within one script.
--
-- A group keeps the records of its buckets in leaves, strings of 2000 rows of equal length. A bucket's place says which
-- leaf it is in, its row which row; the record there is a tag (3) and a document number (4), which is never the highest.
-- Used slots come first in a row, the others are full of ones. Little is read and written of a string that is long: the server has
-- few keys to look up, and a record is one or two cache lines away.
--
--   stem:b    how many leaves and records there are, and with how many records the next leaf comes (three u32); how many
--             slots a row of each leaf has (a byte a leaf)
--   stem:b:N  leaf N, if it has enough records to be worth a string
--   stem:s:N  a hash: row -> the records that found no slot there, as a few do
--
-- Leaves split one at a time as the group grows (linear hashing on the place), and get longer rows as they fill up. The
-- place is the first fourteen bits of the tag. With 32768 added to it, a query looks for SimHash: the last ten bits of
-- the tag are SimHash's own, and one of them may differ.

local byte, char, find, gsub, sub = string.byte, string.char, string.find, string.gsub, string.sub
local pack, unpack_struct, rep = struct.pack, struct.unpack, string.rep
local call_server, try_server, xor, both = redis.call, redis.pcall, bit.bxor, bit.band

local RECORD, ROWS = 7, 2000
local LOAD = 24000  -- so many records more, and the group gets one leaf more
local MOST = 16384  -- leaves
local SLOTS_OF = 12  -- bytes of a head before those of the leaves
local FEW = 0.05  -- records a row up to which a leaf has no slots: a hash of a hundred fields is packed memory, too
local TOLERANT, PLACE = 32768, 63  -- the flag of a query; the bits of the tag's second byte that are of the place
local NOBODY, EMPTY = rep('\255', 4), rep('\255', 7)
-- slots a row may have: so that a leaf just fits into a size in which servers (jemalloc) give out memory
local SLOTS = {1, 2, 4, 7, 8, 9, 11, 14, 16, 18, 23, 28, 32, 37, 46, 56, 64, 74, 93, 112, 128, 149, 187, 224, 255}

local groups = {}

local function foreign(key)
  error({err = 'FOREIGN ' .. key})
end

local function packed_head(group, slots)
  return pack('<I4I4I4', group.leaves, group.count, group.limit) .. slots
end

-- Groups fill up alike: if all began with room for LOAD records, all would split at the same time.
local function first_limit(stem)
  return math.floor(LOAD * tonumber(sub(redis.sha1hex(stem), 1, 4), 16) / 65536) + 1
end

-- Open the groups of the first `count` keys.
local function open_groups(count)
  local keys = {}
  for i = 1, count do keys[i] = KEYS[i] .. ':b' end
  local heads = redis.call('MGET', unpack(keys))
  for i = 1, count do
    local group = {key = keys[i], stem = KEYS[i], leaves = 1, span = 2, count = 0, names = {}, crowded = {}}
    group.head = present(keys[i], heads[i])
    if group.head == '' then
      group.limit = first_limit(KEYS[i])
      group.head = packed_head(group, '')
    else
      if #group.head < SLOTS_OF then foreign(keys[i]) end
      group.leaves, group.count, group.limit = unpack_struct('<I4I4I4', group.head)
      if group.leaves < 1 or group.leaves > MOST or #group.head > SLOTS_OF + group.leaves then foreign(keys[i]) end
    end
    while group.span <= group.leaves do group.span = group.span * 2 end
    groups[i] = group
  end
end

local formats = {}

-- Return the fields of a packed list, one entry after the other, and how many entries there are.
local function fields(packed, format, size)
  local count, known = #packed / size, formats[format]
  if not known then
    known = {}
    formats[format] = known
  end
  if not known[count] then known[count] = '<' .. rep(format, count) end
  local list = {unpack_struct(known[count], packed)}
  list[#list] = nil  -- where it stopped reading
  return list, count
end

-- The server would write numbers as %.17g.
local function decimal(number)
  return string.format('%d', number)
end

local suffixes = {}

local function leaf_key(group, leaf)
  local name = group.names[leaf]
  if not name then
    if not suffixes[leaf] then suffixes[leaf] = ':b:' .. pack('>I2', leaf) end
    name = group.stem .. suffixes[leaf]
    group.names[leaf] = name
  end
  return name
end

local function spill_key(group, leaf)
  return group.stem .. ':s:' .. pack('>I2', leaf)
end

local function leaf_of(group, place)
  local leaf = place % group.span
  if leaf >= group.leaves then leaf = leaf - group.span / 2 end
  return leaf
end

-- Return how many slots a row of a leaf has, 0 where there is no string yet.
local function slots_of(group, leaf)
  return byte(group.head, SLOTS_OF + 1 + leaf) or 0
end

-- Return how many bytes are in use of the row that begins behind the byte `from`, and has `width`.
local function used(rows, from, width)
  local at = find(rows, EMPTY, from + 1, true)
  while at and at <= from + width do
    local record = at + (from + 1 - at) % RECORD
    if sub(rows, record + 3, record + 6) == NOBODY then return math.min(record - 1 - from, width) end
    at = find(rows, EMPTY, at + 1, true)
  end
  return width
end

-- Return what a row holds, and how many bytes of it are records.
local function records_of(group, leaf, row)
  local width, whole = slots_of(group, leaf) * RECORD, ''
  if width > 0 then
    local key, from = leaf_key(group, leaf), row * width
    whole = try_server('GETRANGE', key, decimal(from), decimal(from + width - 1))
    if #whole < width then refuse(key, whole) end  -- an error has no length
    local size = used(whole, 0, width)
    if size < width then return whole, size end
  end
  local spilled = ask('HGET', spill_key(group, leaf), decimal(row))
  if not spilled then return whole, width end
  if #spilled % RECORD > 0 then foreign(spill_key(group, leaf)) end
  return whole .. spilled, width + #spilled
end

-- Return where a record stands, nil if it does not.
local function position(records, record)
  local at = find(records, record, 1, true)
  while at and at % RECORD ~= 1 do at = find(records, record, at + 1, true) end
  return at
end

-- Append to `hits` the numbers of all that stand under a tag, but those in `without`.
local function meet(hits, records, size, place, tag, without)
  local near = place >= TOLERANT
  local wanted = near and sub(tag, 1, 1) or tag
  local at = find(records, wanted, 1, true)
  while at and at < size do
    if at % RECORD == 1 then
      local off = 0
      if near then off = xor(byte(records, at + 1), byte(tag, 2)) + 256 * xor(byte(records, at + 2), byte(tag, 3)) end
      if both(off, off - 1) == 0 and both(off, PLACE) == 0 then
        local number = sub(records, at + 3, at + 6)
        if not (without and without[number]) then hits[#hits + 1] = number end
      end
    end
    at = find(records, wanted, at + 1, true)
  end
end

-- Return the bytes of a leaf's string, and the records of rows that found no slot there. Such a row has no free slot.
local function parts_of_leaf(group, leaf)
  local key, width = leaf_key(group, leaf), slots_of(group, leaf) * RECORD
  local all, spilled = width > 0 and ask('GET', key) or '', {}
  if #all ~= ROWS * width then foreign(key) end
  local flat = ask('HGETALL', spill_key(group, leaf))
  for f = 1, #flat, 2 do
    local row = tonumber(flat[f])
    if not row or row < 0 or row >= ROWS or #flat[f + 1] % RECORD > 0 then foreign(spill_key(group, leaf)) end
    spilled[row] = flat[f + 1]
  end
  return all, spilled
end

-- Return the records of all rows of a leaf, and how many bytes these are.
local function rows_of(group, leaf)
  local rows, size, width = {}, 0, slots_of(group, leaf) * RECORD
  local all, spilled = parts_of_leaf(group, leaf)
  for row = 0, ROWS - 1 do
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
  if average <= FEW then return 0 end
  local lot = tonumber(sub(redis.sha1hex(leaf_key(group, leaf)), 1, 2), 16) / 255
  local enough = average + (0.75 + lot) * math.sqrt(average)
  for s = 1, #SLOTS do
    if SLOTS[s] >= enough then return SLOTS[s] end
  end
  return SLOTS[#SLOTS]
end

local function write_head(group)
  group.head = packed_head(group, sub(group.head, SLOTS_OF + 1))
  redis.call('SET', group.key, group.head)
  group.changed = false
end

local zeros = {}

local function room(size)
  local some = zeros[size]
  if not some then
    some = rep('\255', size)
    zeros[size] = some
  end
  return some
end

-- Write a leaf with these rows, of so many slots: one that was read just now, or a new one.
local function put_leaf(group, leaf, rows, slots)
  local width, parts, spilled = slots * RECORD, {}, {}
  for row = 0, ROWS - 1 do
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
  if slots > 0 and not redis.call('SET', key, table.concat(parts), 'NX') then foreign(key) end
  if leaf < group.leaves then redis.call('DEL', spill) end
  if #spilled > 0 then ask('HSET', spill, unpack(spilled)) end
  local its = SLOTS_OF + 1 + leaf
  group.head = sub(group.head, 1, its - 1) .. char(slots) .. sub(group.head, its + 1)
end

-- Put a record behind the `size` bytes of those of a row.
local function append(group, leaf, row, records, size, tag, number)
  local width = slots_of(group, leaf) * RECORD
  if size < width then
    call_server('SETRANGE', leaf_key(group, leaf), row * width + size, tag .. number)
  else
    ask('HSET', spill_key(group, leaf), decimal(row), sub(records, width + 1) .. tag .. number)
    group.crowded[leaf] = true
  end
  group.count, group.changed = group.count + 1, true
end

-- Take out the record that begins at a byte, the last one takes its place.
local function take_out(group, leaf, row, records, size, at)
  local width, last = slots_of(group, leaf) * RECORD, size - RECORD
  local left = sub(records, 1, last)
  if at <= last then left = sub(left, 1, at - 1) .. sub(records, last + 1, size) .. sub(left, at + RECORD) end
  local within = sub(left, 1, width)
  if width > 0 then
    redis.call('SETRANGE', leaf_key(group, leaf), row * width, within .. rep('\255', width - #within))
  end
  if #left > width then
    redis.call('HSET', spill_key(group, leaf), decimal(row), sub(left, width + 1))
  elseif size > width then
    redis.call('HDEL', spill_key(group, leaf), decimal(row))
  end
  group.count, group.changed = group.count - 1, true
end

-- Return two tables that have '' for each byte: one where this bit is set, one where it is not.
local function gone(bit_value)
  local set, unset = {}, {}
  for value = 0, 255 do
    if value % (2 * bit_value) >= bit_value then set[char(value)] = '' else unset[char(value)] = '' end
  end
  return set, unset
end

-- Give the group one more leaf: it takes those of another's records that have the place's next bit set.
local function split(group)
  local half = group.span / 2
  local leaf, new = group.leaves - half, group.leaves
  local its_byte, bit_value = '(.)......', half
  if bit_value > 255 then its_byte, bit_value = '.(.).....', bit_value / 256 end
  local gone_here, gone_there = gone(bit_value)
  local rows, size = rows_of(group, leaf)
  local move = {}
  for row = 0, ROWS - 1 do
    local records = rows[row]
    rows[row], move[row] = gsub(records, its_byte, gone_here), gsub(records, its_byte, gone_there)
  end
  local average = size / RECORD / ROWS / 2
  put_leaf(group, leaf, rows, slots_for(group, leaf, average))
  put_leaf(group, new, move, slots_for(group, new, average))
  group.leaves, group.limit = group.leaves + 1, group.limit + LOAD
  if group.leaves == group.span then group.span = 2 * group.span end
  write_head(group)
end

-- Give a leaf longer rows if it has as many records as need them, and not only in the rows that are crowded.
local function lengthen(group, leaf)
  local is_split = leaf < group.leaves - group.span / 2 or leaf >= group.span / 2
  local share = is_split and 1 / group.span or 2 / group.span
  local slots = slots_for(group, leaf, group.count * share / ROWS)
  if slots <= slots_of(group, leaf) then return end
  local width, rows = slots_of(group, leaf) * RECORD, {}
  local all, spilled = parts_of_leaf(group, leaf)
  for row = 0, ROWS - 1 do
    local records = sub(all, row * width + 1, row * width + width)  -- with its free slots
    rows[row] = spilled[row] and records .. spilled[row] or records
  end
  put_leaf(group, leaf, rows, slots)
  write_head(group)
end

-- Let the groups that changed have as many leaves as their records need, and write their heads.
local function save()
  local heads = {}
  for i = 1, #groups do
    local group = groups[i]
    while group.count > group.limit and group.leaves < MOST do split(group) end
    for leaf in pairs(group.crowded) do lengthen(group, leaf) end
    if group.changed then
      heads[#heads + 1], heads[#heads + 2] = group.key, packed_head(group, sub(group.head, SLOTS_OF + 1))
    end
  end
  if #heads > 0 then redis.call('MSET', unpack(heads)) end
end
