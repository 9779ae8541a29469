package main

// rungs are the claims, in the order of an operator's day. An id never changes its meaning.
var rungs = []rung{
	{id: "authority.file", claim: "an engaged fence and a journal: file is the authority", source: "docs/formats.md 4", probe: authorityIs(0, "fence engaged, no selector, a journal", untouched)},
	{id: "authority.legacy", claim: "without a fence the legacy files are the authority", source: "docs/formats.md 3", probe: probeNoFence},
	{id: "authority.missing", claim: "a fence and no store at all: blocked", source: "docs/formats.md 4", probe: blockedAs("authority_missing", withoutJournal)},
	{id: "authority.selector_missing", claim: "a database without a selector: blocked", source: "docs/formats.md 4", probe: blockedAs("selector_missing", strayDatabase)},
	{id: "authority.selected_missing", claim: "a selector that names a store which is not there: blocked", source: "docs/formats.md 4", probe: blockedAs("selected_store_missing", selectsNothing)},
	{id: "authority.fence_unreadable", claim: "a fence that cannot be read: blocked", source: "docs/formats.md 3", probe: blockedAs("fence_unreadable", brokenFence)},

	{id: "preview.changes_nothing", claim: "a preview changes no byte and prints digest and line", source: "README, Rules", probe: probePreview},
	{id: "preview.digest", claim: "another plan's digest executes nothing: conflict", source: "README, Rules", probe: probeWrongDigest},
	{id: "usage.refused_first", claim: "a wrong command line is exit 2 before anything is looked at", source: "docs/command-line.md", probe: probeUsage},
	{id: "phases.wrong", claim: "a step out of its phase is refused and changes nothing", source: "README, The story", probe: probeWrongPhase},

	{id: "freeze.binds", claim: "freeze binds cursor and logical digest, read again behind the fence", source: "README, The story", probe: probeFreeze},
	{id: "freeze.probe", claim: "a writer's try behind the frozen selector is seen to fail", source: "README, The story", probe: probeFrozenWriter},
	{id: "freeze.abort", claim: "abort gives the journal its right back; nothing is lost", source: "README, The story", probe: probeAbort},
	{id: "import.complete", claim: "every transaction arrives, with the source's logical digest", source: "README, Rules", probe: probeImport},
	{id: "import.precopy", claim: "import may run while the source is live; freeze copies only the tail", source: "README, The story", probe: probePrecopy},
	{id: "compare.qualified", claim: "source and candidate answer alike in every check", source: "README, The story", probe: probeCompare},
	{id: "compare.coverage", claim: "too little compared is no success", source: "docs/command-line.md", probe: probeCoverage},
	{id: "compare.differs", claim: "a difference is exit 4 and names cursor and operation", source: "README, Exit statuses", probe: probeDiffers},
	{id: "compare.witness", claim: "readers that share no code with the import agree, and find what they plant", source: "docs/evidence.md", probe: probeWitness},
	{id: "promote.authority", claim: "after promote the target takes writes and the source does not", source: "README, Rules", probe: probePromote},
	{id: "promote.tripwire", claim: "a write on the retired journal is named by status", source: "docs/operations.md", probe: probeTripwire},
	{id: "cutover.once", claim: "cutover does all of it in one command and says its write stall", source: "README, The story", probe: probeCutover},
	{id: "rollback.keeps_new", claim: "rollback brings back the journal with what was committed since", source: "README, The story", probe: probeRollback},
	{id: "rollback.again", claim: "after a rollback the Goal can be migrated again", source: "docs/operations.md", probe: probeAgain},

	{id: "retry.replays", claim: "the same operation with the same content returns its stored outcome", source: "README, Rules", probe: probeReplay},
	{id: "retry.conflict", claim: "the same operation id with other content is a conflict", source: "README, Rules", probe: probeReuse},
	{id: "closed.damaged", claim: "a damaged journal is refused with its record named; nothing changes", source: "README, Rules", probe: probeDamaged},
	{id: "closed.record", claim: "a record of ours with one byte changed is refused, and named", source: "docs/formats.md 9", probe: probeRecord},
	{id: "record.proved", claim: "the manifest is proved against both stores", source: "docs/operations.md", probe: probeManifest},
	{id: "export.archive", claim: "the archive holds the whole history and verifies", source: "docs/formats.md 8", probe: probeArchive},
	{id: "evidence.offline", claim: "a bundle is checked offline; an altered byte is refused with its file", source: "docs/evidence.md", probe: probeEvidence},
	{id: "unreachable", claim: "what cannot be reached is exit 7 and no empty answer", source: "README, Exit statuses", probe: probeUnreachable},
	{id: "postgresql.story", claim: "a Goal moves to PostgreSQL, works on, and comes back", source: "README, The story", probe: probePostgreSQL},

	{id: "crash.every_effect", claim: "a kill before any durable effect leaves one authority, and resume finishes", source: "docs/crash-matrix.md", untried: "only a build with faults can be killed there: make crash"},
	{id: "grants.required", claim: "only who holds a grant now may run what changes something", source: "docs/command-line.md", command: "grant", untried: "it needs a second user of this system: go test -run Users"},
	{id: "heads.upgrade", claim: "a head of schema v0 is upgraded in one transaction", source: "docs/command-line.md", command: "upgrade-head", untried: "the disposable goal's head has no binding to be upgraded with; its tests try it"},
	{id: "heads.rebind", claim: "a store binding is renewed after a migration", source: "docs/command-line.md", command: "rebind", untried: "its tests try it"},
	{id: "legacy.project", claim: "a promoted Goal is shown as Markdown", source: "docs/legacy.md", command: "project", untried: "its tests try it"},
	{id: "rehearse", claim: "the whole cutover and its way back run on disposable copies, the source untouched", source: "docs/rehearsal.md", command: "rehearse", probe: probeRehearsal},
	{id: "read", claim: "one Todo is read from a candidate only while it equals the source", source: "README", command: "read"},
	{id: "canary", claim: "two agents work on a disposable promoted Goal", source: "README", command: "canary", probe: probeCanary},
	{id: "qualify", claim: "capacity is qualified", source: "README", command: "qualify"},
	{id: "soak", claim: "elapsed time is qualified", source: "README", command: "soak"},

	{id: "privacy", claim: "no answer of all these commands holds a path, a credential or a Todo's text", source: "README, Rules", probe: probePrivacy}, // last: it looks at what the others printed
}
