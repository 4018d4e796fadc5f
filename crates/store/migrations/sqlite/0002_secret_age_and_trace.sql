-- When a source's secret was made; NULL in a source from before: with the source, as far as anybody knows.
ALTER TABLE sources ADD COLUMN secret_made_at INTEGER;
-- Whose trace an event goes on with, if not its own.
ALTER TABLE events ADD COLUMN trace TEXT;
