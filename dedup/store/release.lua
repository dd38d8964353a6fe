-- Leave the arena: S[d] = void, for good. Kept documents stay.
--
-- KEYS[i]  the stem of the number's group
-- ARGV[i]  document number (4)
-- returns  how many claims were removed
-- cost     O(1) a document

-- include common.lua

local removed = 0
for i = 1, #KEYS do removed = removed + ask('HDEL', KEYS[i] .. ':p', ARGV[i]) end
return removed
