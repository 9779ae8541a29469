-- Objects of loopx-migrate beside LoopX's: seals, fences, quarantine. All names
-- begin with loopx_migrate_. Functions run as their owner with a fixed search_path.

CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_fences (
    tenant_id text NOT NULL,
    goal_id text NOT NULL,
    state text DEFAULT 'open' NOT NULL,
    fence_id text DEFAULT '' NOT NULL,
    changed_at timestamp with time zone DEFAULT transaction_timestamp() NOT NULL,
    CONSTRAINT loopx_migrate_fences_pkey PRIMARY KEY (tenant_id, goal_id),
    CONSTRAINT loopx_migrate_fences_state_check CHECK (
        state IN ('open', 'fenced', 'candidate') AND (state = 'open') = (fence_id = ''))
);

CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_seals (
    tenant_id text NOT NULL,
    goal_id text NOT NULL,
    cursor bigint NOT NULL,
    provider_revision bigint NOT NULL,
    operation_id text NOT NULL,
    committed_at timestamp with time zone NOT NULL,
    projection_sha256 bytea NOT NULL,
    events_sha256 bytea[] NOT NULL,
    receipts_sha256 bytea[] NOT NULL,
    head_updated_at timestamp with time zone,
    made_by text NOT NULL,
    seal bytea NOT NULL,
    CONSTRAINT loopx_migrate_seals_pkey PRIMARY KEY (tenant_id, goal_id, cursor)
);

CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_quarantine (
    quarantine_id text NOT NULL,
    tenant_id text NOT NULL,
    goal_id text NOT NULL,
    fence_id text NOT NULL,
    state text NOT NULL,
    moved_at timestamp with time zone DEFAULT transaction_timestamp() NOT NULL,
    restored_at timestamp with time zone,
    CONSTRAINT loopx_migrate_quarantine_pkey PRIMARY KEY (quarantine_id)
);
CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_quarantine_heads
    (quarantine_id text NOT NULL, LIKE loopx_control_plane.authority_heads, PRIMARY KEY (quarantine_id));
CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_quarantine_commits
    (quarantine_id text NOT NULL, LIKE loopx_control_plane.authority_commits, PRIMARY KEY (quarantine_id, cursor));
CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_quarantine_events
    (quarantine_id text NOT NULL, LIKE loopx_control_plane.authority_events, PRIMARY KEY (quarantine_id, cursor, event_index));
CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_quarantine_receipts
    (quarantine_id text NOT NULL, LIKE loopx_control_plane.authority_receipts, PRIMARY KEY (quarantine_id, cursor, receipt_index));
CREATE TABLE IF NOT EXISTS loopx_control_plane.loopx_migrate_quarantine_seals
    (quarantine_id text NOT NULL, LIKE loopx_control_plane.loopx_migrate_seals, PRIMARY KEY (quarantine_id, cursor));

-- Row-level security here is enabled but not forced: the owner's trigger functions
-- must see the fence of a row whatever tenant the session has set, or an unset tenant
-- would look like an open fence.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['fences', 'seals', 'quarantine', 'quarantine_heads', 'quarantine_commits',
                                'quarantine_events', 'quarantine_receipts', 'quarantine_seals'] LOOP
        name := 'loopx_migrate_' || name;
        EXECUTE format('ALTER TABLE loopx_control_plane.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('DROP POLICY IF EXISTS %I ON loopx_control_plane.%I', name || '_tenant_scope', name);
        EXECUTE format('CREATE POLICY %I ON loopx_control_plane.%I
            USING (tenant_id = current_setting(''loopx.tenant_id'', TRUE))
            WITH CHECK (tenant_id = current_setting(''loopx.tenant_id'', TRUE))', name || '_tenant_scope', name);
    END LOOP;
END $$;

-- The fence. It runs after the row is written, and so after the foreign key's check has
-- locked the head row: every writer, and whoever engages a fence, locks head before fence.
-- FOR SHARE waits for a fence that is being engaged; under REPEATABLE READ the updated row
-- is then a serialization failure, under READ COMMITTED it is read as it is now.
CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_gate()
RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tenant text;
    goal text;
    now_state text;
    now_id text;
BEGIN
    FOR round IN 1..2 LOOP
        IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND round = 1 THEN
            tenant := NEW.tenant_id;
            goal := NEW.goal_id;
        ELSE
            tenant := OLD.tenant_id;
            goal := OLD.goal_id;
        END IF;
        SELECT f.state, f.fence_id INTO now_state, now_id FROM loopx_control_plane.loopx_migrate_fences AS f
            WHERE f.tenant_id = tenant AND f.goal_id = goal FOR SHARE;
        IF NOT FOUND THEN
            INSERT INTO loopx_control_plane.loopx_migrate_fences (tenant_id, goal_id) VALUES (tenant, goal)
                ON CONFLICT ON CONSTRAINT loopx_migrate_fences_pkey DO NOTHING;
            SELECT f.state, f.fence_id INTO STRICT now_state, now_id FROM loopx_control_plane.loopx_migrate_fences AS f
                WHERE f.tenant_id = tenant AND f.goal_id = goal FOR SHARE;
        END IF;
        IF now_state <> 'open' AND (now_id IS DISTINCT FROM current_setting('loopx_migrate.pass', TRUE)
            OR NOT has_table_privilege(session_user, 'loopx_control_plane.loopx_migrate_fences', 'UPDATE')) THEN
            RAISE EXCEPTION 'loopx_migrate_fence:%', now_id USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        -- A row that moves from one Goal to another must pass both fences.
        EXIT WHEN TG_OP <> 'UPDATE' OR OLD.tenant_id = NEW.tenant_id AND OLD.goal_id = NEW.goal_id;
    END LOOP;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_gate_all()
RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fence text;
BEGIN
    SELECT f.fence_id INTO fence FROM loopx_control_plane.loopx_migrate_fences AS f
        WHERE f.state <> 'open' ORDER BY f.fence_id LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'loopx_migrate_fence:%', fence USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END $$;

-- A seal is SHA-256 over
--   previous seal (32) | cursor | provider_revision (8 each) | SHA-256 of operation_id | committed_at (8) |
--   SHA-256 of projection::text | number of events (4) | SHA-256 of each | number of receipts (4) |
--   SHA-256 of each | head_updated_at (8, only where the head moved to this cursor)
-- in PostgreSQL's binary forms. Before the first stands SHA-256 over
--   'loopx_migrate_seal_v1' | SHA-256 of tenant_id | SHA-256 of goal_id.
-- A seal that exists is never replaced.
CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_seal_rows(
    tenant text, goal text, after bigint, through bigint, moved_at timestamp with time zone, maker text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    row record;
    previous bytea;
    moved timestamp with time zone;
    next bigint := after + 1;
    made bytea;
BEGIN
    SELECT s.seal INTO previous FROM loopx_control_plane.loopx_migrate_seals AS s
        WHERE s.tenant_id = tenant AND s.goal_id = goal AND s.cursor = after;
    IF NOT FOUND THEN
        previous := sha256(convert_to('loopx_migrate_seal_v1', 'UTF8')
            || sha256(convert_to(tenant, 'UTF8')) || sha256(convert_to(goal, 'UTF8')));
    END IF;
    FOR row IN
        SELECT c.cursor, c.provider_revision, c.operation_id, c.committed_at,
            sha256(convert_to(c.projection::text, 'UTF8')) AS projection,
            ARRAY(SELECT sha256(convert_to(e.event::text, 'UTF8')) FROM loopx_control_plane.authority_events AS e
                WHERE e.tenant_id = tenant AND e.goal_id = goal AND e.cursor = c.cursor ORDER BY e.event_index) AS events,
            ARRAY(SELECT sha256(convert_to(r.receipt::text, 'UTF8')) FROM loopx_control_plane.authority_receipts AS r
                WHERE r.tenant_id = tenant AND r.goal_id = goal AND r.cursor = c.cursor ORDER BY r.receipt_index) AS receipts
        FROM loopx_control_plane.authority_commits AS c
        WHERE c.tenant_id = tenant AND c.goal_id = goal AND c.cursor > after AND c.cursor <= through
        ORDER BY c.cursor
    LOOP
        EXIT WHEN row.cursor <> next;
        next := next + 1;
        moved := CASE WHEN row.cursor = through THEN moved_at END;
        made := sha256(previous || int8send(row.cursor) || int8send(row.provider_revision)
            || sha256(convert_to(row.operation_id, 'UTF8')) || timestamptz_send(row.committed_at) || row.projection
            || int4send(cardinality(row.events))
            || coalesce((SELECT string_agg(d, ''::bytea ORDER BY n) FROM unnest(row.events) WITH ORDINALITY AS u (d, n)), '')
            || int4send(cardinality(row.receipts))
            || coalesce((SELECT string_agg(d, ''::bytea ORDER BY n) FROM unnest(row.receipts) WITH ORDINALITY AS u (d, n)), '')
            || coalesce(timestamptz_send(moved), ''));
        INSERT INTO loopx_control_plane.loopx_migrate_seals (tenant_id, goal_id, cursor, provider_revision, operation_id,
                committed_at, projection_sha256, events_sha256, receipts_sha256, head_updated_at, made_by, seal)
            VALUES (tenant, goal, row.cursor, row.provider_revision, row.operation_id,
                row.committed_at, row.projection, row.events, row.receipts, moved, maker, made)
            ON CONFLICT ON CONSTRAINT loopx_migrate_seals_pkey DO NOTHING
            RETURNING seal INTO previous;
        IF NOT FOUND THEN
            SELECT s.seal INTO STRICT previous FROM loopx_control_plane.loopx_migrate_seals AS s
                WHERE s.tenant_id = tenant AND s.goal_id = goal AND s.cursor = row.cursor;
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_seal()
RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.cursor > OLD.cursor THEN
        PERFORM loopx_control_plane.loopx_migrate_seal_rows(NEW.tenant_id, NEW.goal_id, OLD.cursor, NEW.cursor,
            NEW.updated_at, CASE WHEN coalesce(current_setting('loopx_migrate.pass', TRUE), '') = '' THEN 'commit' ELSE 'import' END);
    END IF;
    RETURN NULL;
END $$;

-- Seals what stands in a Goal as it stands, in place of any seal there was.
CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_adopt(tenant text, goal text)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    head record;
BEGIN
    PERFORM set_config('loopx.tenant_id', tenant, TRUE);
    SELECT h.cursor, h.updated_at INTO head FROM loopx_control_plane.authority_heads AS h
        WHERE h.tenant_id = tenant AND h.goal_id = goal FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM loopx_control_plane.loopx_migrate_seals AS s WHERE s.tenant_id = tenant AND s.goal_id = goal;
    PERFORM loopx_control_plane.loopx_migrate_seal_rows(tenant, goal, 0, head.cursor, head.updated_at, 'adopted');
    RETURN head.cursor;
END $$;

-- Moves a Goal that is fenced, or a candidate, under this fence id into quarantine and
-- returns where. Called again it returns the same. A candidate's place is open afterwards,
-- a fenced Goal's stays fenced: whoever still writes there must go on failing.
CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_set_aside(tenant text, goal text, fence text)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    standing record;
    id text := gen_random_uuid()::text;
BEGIN
    IF tenant IS DISTINCT FROM current_setting('loopx.tenant_id', TRUE) THEN
        RAISE EXCEPTION 'loopx_migrate_tenant: the tenant is not set' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM 1 FROM loopx_control_plane.authority_heads AS h WHERE h.tenant_id = tenant AND h.goal_id = goal FOR UPDATE;
    IF NOT FOUND THEN
        RETURN (SELECT q.quarantine_id FROM loopx_control_plane.loopx_migrate_quarantine AS q
            WHERE q.tenant_id = tenant AND q.goal_id = goal AND q.fence_id = fence AND q.restored_at IS NULL
            ORDER BY q.moved_at DESC LIMIT 1);
    END IF;
    SELECT f.state, f.fence_id INTO standing FROM loopx_control_plane.loopx_migrate_fences AS f
        WHERE f.tenant_id = tenant AND f.goal_id = goal FOR UPDATE;
    IF NOT FOUND OR standing.fence_id <> fence OR fence = '' THEN
        RAISE EXCEPTION 'loopx_migrate_fence:%', coalesce(standing.fence_id, '') USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO loopx_control_plane.loopx_migrate_quarantine (quarantine_id, tenant_id, goal_id, fence_id, state)
        VALUES (id, tenant, goal, fence, standing.state);
    INSERT INTO loopx_control_plane.loopx_migrate_quarantine_heads
        SELECT id, t.* FROM loopx_control_plane.authority_heads AS t WHERE t.tenant_id = tenant AND t.goal_id = goal;
    INSERT INTO loopx_control_plane.loopx_migrate_quarantine_commits
        SELECT id, t.* FROM loopx_control_plane.authority_commits AS t WHERE t.tenant_id = tenant AND t.goal_id = goal;
    INSERT INTO loopx_control_plane.loopx_migrate_quarantine_events
        SELECT id, t.* FROM loopx_control_plane.authority_events AS t WHERE t.tenant_id = tenant AND t.goal_id = goal;
    INSERT INTO loopx_control_plane.loopx_migrate_quarantine_receipts
        SELECT id, t.* FROM loopx_control_plane.authority_receipts AS t WHERE t.tenant_id = tenant AND t.goal_id = goal;
    INSERT INTO loopx_control_plane.loopx_migrate_quarantine_seals
        SELECT id, t.* FROM loopx_control_plane.loopx_migrate_seals AS t WHERE t.tenant_id = tenant AND t.goal_id = goal;
    PERFORM set_config('loopx_migrate.pass', fence, TRUE);
    DELETE FROM loopx_control_plane.authority_heads AS t WHERE t.tenant_id = tenant AND t.goal_id = goal;
    PERFORM set_config('loopx_migrate.pass', '', TRUE);
    DELETE FROM loopx_control_plane.loopx_migrate_seals AS t WHERE t.tenant_id = tenant AND t.goal_id = goal;
    IF standing.state = 'candidate' THEN
        UPDATE loopx_control_plane.loopx_migrate_fences AS f SET state = 'open', fence_id = '', changed_at = transaction_timestamp()
            WHERE f.tenant_id = tenant AND f.goal_id = goal;
    END IF;
    RETURN id;
END $$;

-- Moves what was set aside back to its place, which must be empty, and leaves it fenced
-- (a candidate: candidate) under the id that it was set aside with.
CREATE OR REPLACE FUNCTION loopx_control_plane.loopx_migrate_bring_back(tenant text, goal text, id text)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept record;
    standing record;
BEGIN
    IF tenant IS DISTINCT FROM current_setting('loopx.tenant_id', TRUE) THEN
        RAISE EXCEPTION 'loopx_migrate_tenant: the tenant is not set' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT q.fence_id, q.state, q.restored_at INTO kept FROM loopx_control_plane.loopx_migrate_quarantine AS q
        WHERE q.tenant_id = tenant AND q.goal_id = goal AND q.quarantine_id = id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'loopx_migrate_quarantine: nothing was set aside under that id' USING ERRCODE = 'no_data_found';
    END IF;
    IF kept.restored_at IS NOT NULL THEN
        RETURN kept.fence_id;
    END IF;
    SELECT f.state, f.fence_id INTO standing FROM loopx_control_plane.loopx_migrate_fences AS f
        WHERE f.tenant_id = tenant AND f.goal_id = goal FOR UPDATE;
    IF standing.state <> 'open' AND standing.fence_id <> kept.fence_id THEN
        RAISE EXCEPTION 'loopx_migrate_fence:%', standing.fence_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF EXISTS (SELECT 1 FROM loopx_control_plane.authority_heads AS h WHERE h.tenant_id = tenant AND h.goal_id = goal) THEN
        RAISE EXCEPTION 'loopx_migrate_quarantine: the place is taken' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO loopx_control_plane.loopx_migrate_fences (tenant_id, goal_id, state, fence_id)
        VALUES (tenant, goal, kept.state, kept.fence_id)
        ON CONFLICT ON CONSTRAINT loopx_migrate_fences_pkey
        DO UPDATE SET state = excluded.state, fence_id = excluded.fence_id, changed_at = transaction_timestamp();
    PERFORM set_config('loopx_migrate.pass', kept.fence_id, TRUE);
    INSERT INTO loopx_control_plane.authority_heads
        SELECT t.tenant_id, t.goal_id, t.provider_revision, t.cursor, t.head, t.updated_at
        FROM loopx_control_plane.loopx_migrate_quarantine_heads AS t WHERE t.quarantine_id = id;
    INSERT INTO loopx_control_plane.authority_commits
        SELECT t.tenant_id, t.goal_id, t.cursor, t.provider_revision, t.operation_id, t.projection, t.committed_at
        FROM loopx_control_plane.loopx_migrate_quarantine_commits AS t WHERE t.quarantine_id = id;
    INSERT INTO loopx_control_plane.authority_events
        SELECT t.tenant_id, t.goal_id, t.cursor, t.event_index, t.event
        FROM loopx_control_plane.loopx_migrate_quarantine_events AS t WHERE t.quarantine_id = id;
    INSERT INTO loopx_control_plane.authority_receipts
        SELECT t.tenant_id, t.goal_id, t.cursor, t.receipt_index, t.receipt
        FROM loopx_control_plane.loopx_migrate_quarantine_receipts AS t WHERE t.quarantine_id = id;
    PERFORM set_config('loopx_migrate.pass', '', TRUE);
    INSERT INTO loopx_control_plane.loopx_migrate_seals
        SELECT t.tenant_id, t.goal_id, t.cursor, t.provider_revision, t.operation_id, t.committed_at, t.projection_sha256,
            t.events_sha256, t.receipts_sha256, t.head_updated_at, t.made_by, t.seal
        FROM loopx_control_plane.loopx_migrate_quarantine_seals AS t WHERE t.quarantine_id = id;
    DELETE FROM loopx_control_plane.loopx_migrate_quarantine_heads AS t WHERE t.quarantine_id = id;
    DELETE FROM loopx_control_plane.loopx_migrate_quarantine_commits AS t WHERE t.quarantine_id = id;
    DELETE FROM loopx_control_plane.loopx_migrate_quarantine_events AS t WHERE t.quarantine_id = id;
    DELETE FROM loopx_control_plane.loopx_migrate_quarantine_receipts AS t WHERE t.quarantine_id = id;
    DELETE FROM loopx_control_plane.loopx_migrate_quarantine_seals AS t WHERE t.quarantine_id = id;
    UPDATE loopx_control_plane.loopx_migrate_quarantine AS q SET restored_at = transaction_timestamp() WHERE q.quarantine_id = id;
    RETURN kept.fence_id;
END $$;

-- ALWAYS: a session in replica mode is a writer like any other.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['authority_heads', 'authority_commits', 'authority_events', 'authority_receipts'] LOOP
        EXECUTE format('CREATE OR REPLACE TRIGGER loopx_migrate_gate AFTER INSERT OR UPDATE OR DELETE
            ON loopx_control_plane.%I FOR EACH ROW EXECUTE FUNCTION loopx_control_plane.loopx_migrate_gate()', name);
        EXECUTE format('ALTER TABLE loopx_control_plane.%I ENABLE ALWAYS TRIGGER loopx_migrate_gate', name);
        EXECUTE format('CREATE OR REPLACE TRIGGER loopx_migrate_gate_all BEFORE TRUNCATE
            ON loopx_control_plane.%I FOR EACH STATEMENT EXECUTE FUNCTION loopx_control_plane.loopx_migrate_gate_all()', name);
        EXECUTE format('ALTER TABLE loopx_control_plane.%I ENABLE ALWAYS TRIGGER loopx_migrate_gate_all', name);
    END LOOP;
END $$;
CREATE OR REPLACE TRIGGER loopx_migrate_seal AFTER UPDATE ON loopx_control_plane.authority_heads
    FOR EACH ROW EXECUTE FUNCTION loopx_control_plane.loopx_migrate_seal();
ALTER TABLE loopx_control_plane.authority_heads ENABLE ALWAYS TRIGGER loopx_migrate_seal;

REVOKE ALL ON FUNCTION
    loopx_control_plane.loopx_migrate_gate(),
    loopx_control_plane.loopx_migrate_gate_all(),
    loopx_control_plane.loopx_migrate_seal_rows(text, text, bigint, bigint, timestamp with time zone, text),
    loopx_control_plane.loopx_migrate_seal(),
    loopx_control_plane.loopx_migrate_adopt(text, text),
    loopx_control_plane.loopx_migrate_set_aside(text, text, text),
    loopx_control_plane.loopx_migrate_bring_back(text, text, text)
FROM PUBLIC;

-- From install on every Goal that is there has its fence row. The installer may be an
-- owner without BYPASSRLS, whom forced row-level security shows nothing: lift the force
-- for the length of this transaction, which holds the tables' locks anyway.
ALTER TABLE loopx_control_plane.authority_heads NO FORCE ROW LEVEL SECURITY;
INSERT INTO loopx_control_plane.loopx_migrate_fences (tenant_id, goal_id)
    SELECT h.tenant_id, h.goal_id FROM loopx_control_plane.authority_heads AS h
    ON CONFLICT ON CONSTRAINT loopx_migrate_fences_pkey DO NOTHING;
ALTER TABLE loopx_control_plane.authority_heads FORCE ROW LEVEL SECURITY;
