-- LoopX's schema loopx_postgresql_authority_store_v0, as a database that LoopX
-- installed shows it. Nothing of ours is in it.
CREATE SCHEMA IF NOT EXISTS loopx_control_plane;

CREATE TABLE IF NOT EXISTS loopx_control_plane.authority_store_metadata (
    singleton boolean DEFAULT true NOT NULL PRIMARY KEY,
    schema_version text NOT NULL,
    store_identity text NOT NULL UNIQUE,
    created_at timestamp with time zone DEFAULT transaction_timestamp() NOT NULL,
    CONSTRAINT authority_store_metadata_singleton_check CHECK (singleton)
);

CREATE TABLE IF NOT EXISTS loopx_control_plane.authority_heads (
    tenant_id text NOT NULL,
    goal_id text NOT NULL,
    provider_revision bigint DEFAULT 0 NOT NULL,
    cursor bigint DEFAULT 0 NOT NULL,
    head jsonb,
    updated_at timestamp with time zone DEFAULT transaction_timestamp() NOT NULL,
    CONSTRAINT authority_heads_pkey PRIMARY KEY (tenant_id, goal_id),
    CONSTRAINT authority_heads_check CHECK (
        (cursor = 0 AND provider_revision = 0 AND head IS NULL)
        OR (cursor > 0 AND provider_revision > 0 AND head IS NOT NULL)),
    CONSTRAINT authority_heads_cursor_check CHECK (cursor >= 0),
    CONSTRAINT authority_heads_provider_revision_check CHECK (provider_revision >= 0)
);

CREATE TABLE IF NOT EXISTS loopx_control_plane.authority_commits (
    tenant_id text NOT NULL,
    goal_id text NOT NULL,
    cursor bigint NOT NULL,
    provider_revision bigint NOT NULL,
    operation_id text NOT NULL,
    projection jsonb NOT NULL,
    committed_at timestamp with time zone DEFAULT transaction_timestamp() NOT NULL,
    CONSTRAINT authority_commits_pkey PRIMARY KEY (tenant_id, goal_id, cursor),
    CONSTRAINT authority_commits_tenant_id_goal_id_operation_id_key UNIQUE (tenant_id, goal_id, operation_id),
    CONSTRAINT authority_commits_cursor_check CHECK (cursor > 0),
    CONSTRAINT authority_commits_provider_revision_check CHECK (provider_revision > 0),
    CONSTRAINT authority_commits_tenant_id_goal_id_fkey FOREIGN KEY (tenant_id, goal_id)
        REFERENCES loopx_control_plane.authority_heads (tenant_id, goal_id) ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS loopx_control_plane.authority_events (
    tenant_id text NOT NULL,
    goal_id text NOT NULL,
    cursor bigint NOT NULL,
    event_index integer NOT NULL,
    event jsonb NOT NULL,
    CONSTRAINT authority_events_pkey PRIMARY KEY (tenant_id, goal_id, cursor, event_index),
    CONSTRAINT authority_events_event_index_check CHECK (event_index >= 0),
    CONSTRAINT authority_events_tenant_id_goal_id_cursor_fkey FOREIGN KEY (tenant_id, goal_id, cursor)
        REFERENCES loopx_control_plane.authority_commits (tenant_id, goal_id, cursor) ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS loopx_control_plane.authority_receipts (
    tenant_id text NOT NULL,
    goal_id text NOT NULL,
    cursor bigint NOT NULL,
    receipt_index integer NOT NULL,
    receipt jsonb NOT NULL,
    CONSTRAINT authority_receipts_pkey PRIMARY KEY (tenant_id, goal_id, cursor, receipt_index),
    CONSTRAINT authority_receipts_receipt_index_check CHECK (receipt_index >= 0),
    CONSTRAINT authority_receipts_tenant_id_goal_id_cursor_fkey FOREIGN KEY (tenant_id, goal_id, cursor)
        REFERENCES loopx_control_plane.authority_commits (tenant_id, goal_id, cursor) ON DELETE CASCADE
);

ALTER TABLE loopx_control_plane.authority_heads ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE loopx_control_plane.authority_commits ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE loopx_control_plane.authority_events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE loopx_control_plane.authority_receipts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS authority_heads_tenant_scope ON loopx_control_plane.authority_heads;
CREATE POLICY authority_heads_tenant_scope ON loopx_control_plane.authority_heads
    USING (tenant_id = current_setting('loopx.tenant_id', TRUE))
    WITH CHECK (tenant_id = current_setting('loopx.tenant_id', TRUE));
DROP POLICY IF EXISTS authority_commits_tenant_scope ON loopx_control_plane.authority_commits;
CREATE POLICY authority_commits_tenant_scope ON loopx_control_plane.authority_commits
    USING (tenant_id = current_setting('loopx.tenant_id', TRUE))
    WITH CHECK (tenant_id = current_setting('loopx.tenant_id', TRUE));
DROP POLICY IF EXISTS authority_events_tenant_scope ON loopx_control_plane.authority_events;
CREATE POLICY authority_events_tenant_scope ON loopx_control_plane.authority_events
    USING (tenant_id = current_setting('loopx.tenant_id', TRUE))
    WITH CHECK (tenant_id = current_setting('loopx.tenant_id', TRUE));
DROP POLICY IF EXISTS authority_receipts_tenant_scope ON loopx_control_plane.authority_receipts;
CREATE POLICY authority_receipts_tenant_scope ON loopx_control_plane.authority_receipts
    USING (tenant_id = current_setting('loopx.tenant_id', TRUE))
    WITH CHECK (tenant_id = current_setting('loopx.tenant_id', TRUE));
