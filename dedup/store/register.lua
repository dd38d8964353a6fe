-- REGISTER: enter the arena, S[d] = pending.
--
-- KEYS[i]     the stem of the number's group
-- ARGV[1]     lease in milliseconds
-- ARGV[2]     owner (8 bytes)
-- ARGV[2i+1]  a fresh document number (4)
-- ARGV[2i+2]  its record: what stays when the document is kept
-- returns     how many were registered now
-- cost        O(1) a document
--
-- Idempotent: a number is given to one process once, so a claim that is there already is this one.

-- include common.lua
-- include states.lua

local deadline, owner, registered = milliseconds() + ARGV[1], ARGV[2], 0
for i = 1, #KEYS do
  local stem, number = KEYS[i], ARGV[2 * i + 1]
  if not claim_of(stem, number) then
    put_claim(stem, number, 'P', deadline, owner, '', ARGV[2 * i + 2])
    registered = registered + 1
  end
end
return registered
