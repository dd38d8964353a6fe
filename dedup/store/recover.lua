-- Void the claims that earlier processes of this worker left behind, and all whose lease ran out.
--
-- KEYS[i]  the stem of a group
-- ARGV[1]  owner (8 bytes): the first 4 name the worker, in all its lives, the others this process
-- returns  for each group one string of 12-byte entries, of this worker's claims: number (4), page (8)
-- cost     O(claims under way)

-- include common.lua
-- include states.lua

local owner, now, answers = ARGV[1], milliseconds(), {}
for i = 1, #KEYS do
  local claims, ours = ask('HGETALL', KEYS[i] .. ':p'), {}
  for c = 1, #claims, 2 do
    local number, claim = claims[c], checked(KEYS[i], claims[c + 1])
    local by = owner_of(claim)
    local former = by ~= owner and string.sub(by, 1, 4) == string.sub(owner, 1, 4)
    if former then
      local _, record = parts_of(claim)
      ours[#ours + 1] = number .. string.sub(record, 1, 8)
    end
    if former or deadline_of(claim) < now then redis.call('HDEL', KEYS[i] .. ':p', number) end
  end
  answers[i] = table.concat(ours)
end
return answers
