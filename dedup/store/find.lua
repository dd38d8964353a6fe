-- Find kept documents by the end of their record, where the URL stands.
--
-- KEYS[1]  the stem of a group
-- ARGV[1]  the first chunk of the group;  ARGV[2]  how many
-- ARGV[3]  the URL;  ARGV[4]  the number of the group
-- returns  a list: number (4), since (4), record; and so on. The caller checks that all of the URL is meant
-- cost     O(bytes in these chunks)

-- include common.lua
-- include states.lua

local begin, url, group = tonumber(ARGV[1]), ARGV[3], tonumber(ARGV[4])
local names, found = {}, {}
for n = begin, begin + ARGV[2] - 1 do names[#names + 1] = KEYS[1] .. ':k:' .. n end
local chunks = redis.call('MGET', unpack(names))
for i = 1, #names do
  local chunk = present(names[i], chunks[i])
  if string.find(chunk, url, 1, true) then
    for slot = 0, CHUNK - 1 do
      local first, last = entry_of(names[i], chunk, slot)
      if first and string.sub(chunk, last - #url + 1, last) == url then
        local number = ((begin + i - 1) * GROUPS + group) * CHUNK + slot
        found[#found + 1] = struct.pack('>I4', number) .. string.sub(chunk, first + 4, last)
      end
    end
  end
end
return found
