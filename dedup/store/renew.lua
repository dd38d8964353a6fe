-- Count the lease of claims anew: their owner is alive, and waits for a rival or for its disk.
--
-- KEYS[i]    the stem of the number's group
-- ARGV[1]    lease in milliseconds
-- ARGV[i+1]  document number (4)
-- returns    how many claims are still there
-- cost       O(1) a document

-- include common.lua
-- include states.lua

local deadline, left = milliseconds() + ARGV[1], 0
for i = 1, #KEYS do
  local claim = claim_of(KEYS[i], ARGV[i + 1])
  if claim then
    local challengers, record = parts_of(claim)
    put_claim(KEYS[i], ARGV[i + 1], string.sub(claim, 1, 1), deadline, owner_of(claim), challengers, record)
    left = left + 1
  end
end
return left
