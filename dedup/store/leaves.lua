-- What the scripts share that touch buckets: how a bucket group is laid out, and its life within one script.
--
-- A record is 8 bytes: tag (4), document number (4). A group keeps its records in leaves, the strings stem:b:N, and
-- how many leaves and records there are in stem:b (two u32). A leaf is short and written whole: an appended string
-- keeps room for growth that a packed index cannot afford.
--
-- Leaves split one at a time as the group grows (linear hashing on the low bits of the tag), so that a leaf stays at
-- about the same length at any index size. All that may match a SimHash quarter share the low 16 bits of the tag, and
-- so the leaf: a group has at most 65,536 of them.
--
-- A script first locates all leaves that it needs, then loads them together, and takes a whole list of entries apart at
-- once: calls cost more than what they do. Lists come ordered by the low 16 bits of their tags read backwards, so that
-- entries of one leaf follow each other, whatever the number of leaves.

local find, sub, unpack_struct, pack = string.find, string.sub, struct.unpack, struct.pack

local LOAD = 48  -- records a leaf at which the group gets one more
local MOST = 65536
local AT_ONCE = 1000  -- keys a command: Lua's stack holds 8,000 values
local CROWDED = 200000  -- records in a group from which a quarter is looked for by its 17 possible tags (ADR 0010)

local groups = {}
local located, loaded = 0, 0
local names, numbers, leaves, dirty = {}, {}, {}, {}  -- of the leaves that were located

-- Open the groups of the first `count` keys.
local function open_groups(count)
  local keys = {}
  for i = 1, count do keys[i] = KEYS[i] .. ':b' end
  local sizes = redis.call('MGET', unpack(keys))
  for i = 1, count do
    local size, number, records, level = sizes[i] or present(keys[i], false), 1, 0, 1
    if #size == 8 then
      number, records = unpack_struct('<I4I4', size)
    elseif size ~= '' then
      error({err = 'FOREIGN ' .. keys[i]})
    end
    while level * 2 <= number do level = level * 2 end
    groups[i] = {key = keys[i], leaves = number, level = level, count = records, runs = {}}
  end
end

local formats = {}

-- Return the fields of a packed list, one entry after the other.
local function fields(packed, format, size)
  local count = #packed / size
  local name = format .. count
  if not formats[name] then formats[name] = '<' .. string.rep(format, count) end
  local list = {unpack_struct(formats[name], packed)}
  list[#list] = nil  -- where it stopped reading
  return list, count
end

local function add_leaf(group, number)
  located = located + 1
  names[located], numbers[located] = group.key .. ':' .. pack('>I2', number), number
  return located
end

-- Return the index of a leaf that was located before, nil if it was not.
local function index_of(group, number)
  for r = 1, #group.runs, 2 do
    for index = group.runs[r], group.runs[r + 1] do
      if numbers[index] == number then return index end
    end
  end
end

-- Return for each entry of a list the index of its leaf; `size` fields an entry, the tag being field `at`. Entries that
-- `wanted` says no to have none.
local function locate(group, list, size, at, wanted)
  local where, span, most, level, known = {}, group.level * 2, group.leaves, group.level, #group.runs > 0
  local first, last, index, entry = located + 1, -1, 0, 0
  for e = at, #list, size do
    entry = entry + 1
    if wanted and not wanted[list[e - at + 1] + 1] then
      where[entry] = false
    else
      local number = list[e] % span
      if number >= most then number = number - level end
      if number ~= last then
        index, last = known and index_of(group, number) or add_leaf(group, number), number
      end
      where[entry] = index
    end
  end
  if located >= first then group.runs[#group.runs + 1], group.runs[#group.runs + 2] = first, located end
  return where
end

local function load()
  for first = loaded + 1, located, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, located)
    local found = redis.call('MGET', unpack(names, first, last))
    for i = 1, last - first + 1 do
      local records = found[i] or present(names[first + i - 1], false)
      if #records % 8 > 0 then error({err = 'FOREIGN ' .. names[first + i - 1]}) end
      leaves[first + i - 1] = records
    end
  end
  loaded = located
end

-- Open all groups with their lists, ARGV[i] for KEYS[i]: return the lists' fields and their entries' leaves, loaded.
local function open_lists(format, bytes, size)
  open_groups(#KEYS)
  local lists, where = {}, {}
  for i = 1, #KEYS do
    lists[i] = fields(ARGV[i], format, bytes)
    where[i] = locate(groups[i], lists[i], size, 2)
  end
  load()
  return lists, where
end

-- Append to `hits` the numbers that stand under a tag (4 bytes).
local function meet(hits, records, tag)
  local pos = find(records, tag, 1, true)
  while pos do
    if pos % 8 == 1 then hits[#hits + 1] = sub(records, pos + 4, pos + 7) end
    pos = find(records, tag, pos + (pos % 8 == 1 and 8 or 1), true)
  end
end

-- The same for a SimHash quarter: the low half of its tag must agree, the high half may differ in one bit. In a crowded
-- group many records share that half: it is cheaper to look for each tag that may differ.
local function meet_near(hits, records, tag, crowded)
  local key, high = sub(tag, 1, 2), nil
  if crowded then
    high = unpack_struct('<I2', tag, 3)
    meet(hits, records, tag)
    for shift = 0, 15 do meet(hits, records, key .. pack('<I2', bit.bxor(high, bit.lshift(1, shift)))) end
    return
  end
  local pos = find(records, key, 1, true)
  while pos do
    if pos % 8 == 1 then
      high = high or unpack_struct('<I2', tag, 3)
      local off = bit.bxor(high, (unpack_struct('<I2', records, pos + 2)))
      if bit.band(off, off - 1) == 0 then hits[#hits + 1] = sub(records, pos + 4, pos + 7) end
    end
    pos = find(records, key, pos + (pos % 8 == 1 and 8 or 1), true)
  end
end

-- Return where a record stands, nil if it does not.
local function stands(records, record)
  local pos = find(records, record, 1, true)
  while pos and pos % 8 ~= 1 do pos = find(records, record, pos + 1, true) end
  return pos
end

-- Let a group have as many leaves as its records need. Leaf (leaves - level) gives the records whose next bit is set to
-- the new one; runs of them are cut out at once.
local function grow(group)
  while group.count > group.leaves * LOAD and group.leaves < MOST do
    local number, span, halves = group.leaves - group.level, group.level * 2, {{}, {}}
    local from = index_of(group, number)
    local records = leaves[from]
    local tags, count = fields(records, 'I4I4', 8)
    local first = 1
    while first <= count do
      local stays, last = tags[2 * first - 1] % span == number, first
      while last < count and (tags[2 * last + 1] % span == number) == stays do last = last + 1 end
      local half = stays and halves[1] or halves[2]
      half[#half + 1] = sub(records, 8 * first - 7, 8 * last)
      first = last + 1
    end
    local to = add_leaf(group, group.leaves)
    group.runs[#group.runs + 1], group.runs[#group.runs + 2] = to, to
    leaves[from], leaves[to] = table.concat(halves[1]), table.concat(halves[2])
    dirty[from], dirty[to], loaded = true, true, located
    group.leaves = group.leaves + 1
    if group.leaves == span then group.level = span end
  end
end

-- Locate the leaves that the groups will split: they are loaded together.
local function prepare_growth()
  for i = 1, #groups do
    local group = groups[i]
    local first, level = located + 1, group.level
    for leaf = group.leaves, math.min(math.ceil(group.count / LOAD), MOST) - 1 do
      if leaf == level * 2 then level = leaf end
      -- a leaf that is made by an earlier split of this script is not in the store
      if leaf - level < group.leaves and not index_of(group, leaf - level) then add_leaf(group, leaf - level) end
    end
    if located >= first then group.runs[#group.runs + 1], group.runs[#group.runs + 2] = first, located end
  end
  load()
end

-- Let the groups grow, and write what has changed.
local function save()
  prepare_growth()
  local words, gone = {}, {}
  for i = 1, #groups do
    local group = groups[i]
    grow(group)
    if group.changed then words[#words + 1], words[#words + 2] = group.key, pack('<I4I4', group.leaves, group.count) end
  end
  if #words > 0 then redis.call('MSET', unpack(words)) end
  for first = 1, located, AT_ONCE do
    local count = 0
    words = {}
    for index = first, math.min(first + AT_ONCE - 1, located) do
      if dirty[index] then
        if leaves[index] == '' then
          gone[#gone + 1] = names[index]
        else
          words[count + 1], words[count + 2], count = names[index], leaves[index], count + 2
        end
      end
    end
    if count > 0 then redis.call('MSET', unpack(words)) end
  end
  for first = 1, #gone, AT_ONCE do
    redis.call('DEL', unpack(gone, first, math.min(first + AT_ONCE - 1, #gone)))
  end
end
