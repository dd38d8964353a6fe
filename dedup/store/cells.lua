-- What the scripts share that touch the cells of a leaf: small lists of records in the fields of a hash.
--
-- A hash as small as a leaf is a listpack, one packed piece of memory. Its 32 fields are cells; in their values lie
-- records of 7 bytes one behind the other: tag (3), document number (4). The tag's first fourteen bits are of the place.
-- A listpack takes values of up to 64 bytes: a cell of more than nine records goes on in the field 32 further on, and so
-- on. All of its blocks but the last are full.
--
-- A query names a cell, or a cell + 32: then the last ten bits of the tag are SimHash's own, and one of them may differ.

local byte, find, sub = string.byte, string.find, string.sub
local call_server, pcall_server, xor, both = redis.call, redis.pcall, bit.bxor, bit.band

local CELLS = 32
local RECORD, FULL = 7, 63  -- bytes
local PLACE = 63  -- the bits of the tag's second byte that are of the place
local AT_ONCE = 1000  -- words a command: Lua's stack holds 8,000 values

local names = {}  -- a field's name by its number: the server would write numbers as %.17g

local function name_of(field)
  local name = names[field]
  if not name then
    name = string.format('%d', field)
    names[field] = name
  end
  return name
end

local function foreign(leaf)
  error({err = 'FOREIGN ' .. leaf})
end

-- Return the records of a cell's blocks behind the first one.
local function further_blocks(leaf, cell)
  local parts, block, likely = {}, 1, 1
  while true do
    local wanted = {}
    for b = 1, likely do wanted[b] = name_of(cell + CELLS * (block + b - 1)) end
    local values = ask('HMGET', leaf, unpack(wanted))
    for b = 1, likely do
      local value = values[b]
      if not value then return table.concat(parts) end
      if #value % RECORD > 0 or #value > FULL then foreign(leaf) end
      parts[#parts + 1] = value
      if #value < FULL then return table.concat(parts) end
    end
    block, likely = block + likely, math.min(2 * likely, AT_ONCE)
  end
end

-- Return all records of a cell.
local function records_of(leaf, cell)
  cell = cell % CELLS
  local value = pcall_server('HGET', leaf, names[cell] or name_of(cell))
  if not value then return '' end
  local size = #value  -- of an error 0
  if size > 0 and size < FULL and size % RECORD == 0 then return value end
  if size == 0 then ask('HGET', leaf, name_of(cell)) end  -- which says what it is
  if size ~= FULL then foreign(leaf) end
  return value .. further_blocks(leaf, cell)
end

-- Put a record behind those of a cell.
local function append(leaf, cell, records, tag, number)
  cell = cell % CELLS
  if #records < FULL then
    call_server('HSET', leaf, names[cell] or name_of(cell), records .. tag .. number)
  else
    local last = #records - #records % FULL
    redis.call('HSET', leaf, name_of(cell + CELLS * last / FULL), sub(records, last + 1) .. tag .. number)
  end
end

-- Write the block of a cell that has the byte `at`.
local function rewrite(leaf, cell, records, at)
  local before = at - 1 - (at - 1) % FULL
  local block, field = sub(records, before + 1, before + FULL), name_of(cell % CELLS + CELLS * before / FULL)
  if block == '' then redis.call('HDEL', leaf, field) else redis.call('HSET', leaf, field, block) end
end

-- Take out the record that begins at a byte, the last one takes its place; return those that are left.
local function take_out(leaf, cell, records, at)
  local last = #records - RECORD
  local left = sub(records, 1, last)
  if at <= last then
    left = sub(left, 1, at - 1) .. sub(records, last + 1) .. sub(left, at + RECORD)
    rewrite(leaf, cell, left, at)
  end
  if at > last or math.floor((at - 1) / FULL) ~= math.floor(last / FULL) then rewrite(leaf, cell, left, last + 1) end
  return left
end

-- Return where a record stands, nil if it does not.
local function position(records, record)
  local at = find(records, record, 1, true)
  while at and at % RECORD ~= 1 do at = find(records, record, at + 1, true) end
  return at
end

-- Append to `hits` the numbers of all that stand under a tag, but those in `without`.
local function meet(hits, records, cell, tag, without)
  local near = cell >= CELLS
  local wanted = near and sub(tag, 1, 1) or tag
  local at = find(records, wanted, 1, true)
  while at do
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

local function put_all(leaf, words)
  for first = 1, #words, AT_ONCE do
    redis.call('HSET', leaf, unpack(words, first, math.min(first + AT_ONCE - 1, #words)))
  end
end

-- Append to `words` the fields of a cell and their values.
local function spell(words, cell, records)
  if #records <= FULL then
    if records ~= '' then words[#words + 1], words[#words + 2] = name_of(cell), records end
    return
  end
  for first = 1, #records, FULL do
    words[#words + 1] = name_of(cell + CELLS * (first - 1) / FULL)
    words[#words + 1] = sub(records, first, first + FULL - 1)
  end
end

-- Call `act` with the cell and the value of each field of a leaf.
local function each_block(leaf, act)
  local all = ask('HGETALL', leaf)
  for f = 1, #all, 2 do
    local field, value = tonumber(all[f]), all[f + 1]
    if not field or #value % RECORD > 0 or #value > FULL then foreign(leaf) end
    act(field % CELLS, value)
  end
end
