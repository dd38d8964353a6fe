-- What the scripts share that touch buckets: how a bucket group is laid out, and how records are found, put and taken.
--
-- A group keeps the records of its buckets in leaves, strings of rows of equal length. A bucket's place and row say in
-- which row of which leaf it is; the record there is a tag (3) and a document number (4), which is never the highest.
-- Used slots come first in a row, the others are full of ones. Little is read and written of a string that is long: the
-- server has few keys to look up, and a record is one or two cache lines away.
--
--   stem:b    how many records there are, and with how many the group grows next (two u32); its fold (u8); how many
--             leaves it had when this round of splits began, and how many of them are split (two u16); how many slots a
--             row of each leaf has (a byte a leaf)
--   stem:b:N  leaf N
--   stem:s:N  a hash: row -> the records that found no slot there, as a few do
--
-- A group grows with its records. Its one leaf gets four times as many rows (it folds), and again, to 8000; from then
-- on its leaves split in four, one with each call. Both go by the next two bits of the place, which is the first
-- fourteen bits of the tag. As leaves fill up they get longer rows. With 32768 added to the place, a query looks for
-- SimHash: the last ten bits of the tag are SimHash's own, and one of them may differ.

local byte, char, find, format, sub = string.byte, string.char, string.find, string.format, string.sub
local pack, unpack_struct, rep = struct.pack, struct.unpack, string.rep
local call_server, try_server, xor, both = redis.call, redis.pcall, bit.bxor, bit.band

local RECORD, ROWS, MOST_FOLD = 7, 125, 64  -- bytes; rows of a leaf before it folds; what they may be multiplied by
local LOAD = 24  -- records a row at most, on average, before a group grows
local FEWEST, MOST = 4, 256  -- slots of a row; leaves: of the place, six bits choose the row and eight the leaf
local HEAD, SLOTS_OF = '<I4I4I1I2I2', 13  -- bytes of a head before those of the leaves
local TOLERANT, PLACE = 32768, 63  -- the flag of a query; the bits of the tag's second byte that are of the place
local OFTEN = 32768  -- offsets up to here are written out once a call: all, while leaves are short
local NOBODY, EMPTY = rep('\255', 4), rep('\255', RECORD)

local groups = {}

local function foreign(key)
  error({err = 'FOREIGN ' .. key})
end

local function packed_head(group)
  return pack(HEAD, group.count, group.limit, group.fold, group.span, group.split) .. group.slots
end

-- Groups fill up alike: if all began with the same limit, all would grow at the same time.
local function first_limit(stem)
  return math.floor(ROWS * LOAD * (0.5 + tonumber(sub(redis.sha1hex(stem), 1, 4), 16) / 131072))
end

local function opened(key, stem, head)
  local count, limit, fold, span, split, slots = 0, nil, 1, 1, 0, ''
  if head == '' then
    limit = first_limit(stem)
  else
    if #head < SLOTS_OF then foreign(key) end
    count, limit, fold, span, split = unpack_struct(HEAD, head)
    slots = sub(head, SLOTS_OF + 1)
    local ours = fold > 0 and fold <= MOST_FOLD and span > 0 and span <= MOST and split < span and #slots <= 4 * span
    if not ours then foreign(key) end
  end
  return {
    key = key, stem = stem, count = count, limit = limit, fold = fold, span = span, split = split, slots = slots,
    names = {}, crowded = false, changed = false,
  }
end

-- Open the groups of the first `count` keys.
local function open_groups(count)
  local keys = {}
  for i = 1, count do keys[i] = KEYS[i] .. ':b' end
  local heads = redis.call('MGET', unpack(keys))
  for i = 1, count do groups[i] = opened(keys[i], KEYS[i], present(keys[i], heads[i])) end
end

local formats = {}

-- Return the fields of a packed list, one entry after the other, and how many entries there are.
local function fields(packed, entry, size)
  local count, known = #packed / size, formats[entry]
  if not known then
    known = {}
    formats[entry] = known
  end
  if not known[count] then known[count] = '<' .. rep(entry, count) end
  local list = {unpack_struct(known[count], packed)}
  list[#list] = nil  -- where it stopped reading
  return list, count
end

local offsets = {}

-- Return a number as text: the server would write it as %.17g, which is slow. Small offsets come again and again.
local function decimal(number)
  if number >= OFTEN then return format('%d', number) end
  local text = offsets[number]
  if not text then
    text = format('%d', number)
    offsets[number] = text
  end
  return text
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

-- Return in which leaf of its group a bucket is, and in which row of it.
local function spot_of(group, place, row)
  local fold, span = group.fold, group.span
  local low = place % fold
  local high = (place - low) / fold
  local leaf = high % span
  if leaf < group.split then leaf = high % (4 * span) end
  return leaf, low * ROWS + row
end

-- Return how many slots a row of a leaf has, 0 where there is no string yet.
local function slots_of(group, leaf)
  return byte(group.slots, leaf + 1) or 0
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
    local key, from = group.names[leaf] or leaf_key(group, leaf), row * width
    -- with a byte more than the row has, it ends where the next one begins: a number less to write out as text
    whole = try_server('GETRANGE', key, decimal(from), decimal(from + width))
    if #whole < width then refuse(key, whole) end  -- an error has no length
    local free = find(whole, EMPTY, 1, true)
    if free and free % RECORD == 1 then return whole, free - 1 end
    local size = used(whole, 0, width)
    if size < width then return whole, size end
    whole = sub(whole, 1, width)
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

-- Make the first leaf of a group, and return how wide its rows are.
local function first_leaf(group)
  local width = FEWEST * RECORD
  if not redis.call('SET', leaf_key(group, 0), rep('\255', ROWS * width), 'NX') then foreign(leaf_key(group, 0)) end
  group.slots = char(FEWEST)
  return width
end

-- Put a record behind the `size` bytes of those of a row.
local function append(group, leaf, row, records, size, tag, number)
  local width = slots_of(group, leaf) * RECORD
  if width == 0 then width = first_leaf(group) end
  if size < width then
    call_server('SETRANGE', leaf_key(group, leaf), format('%d', row * width + size), tag .. number)
  else
    ask('HSET', spill_key(group, leaf), decimal(row), sub(records, width + 1) .. tag .. number)
    if not group.crowded then group.crowded = {} end
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
