// Package faultio is the one seam through which this tool changes durable state:
// files, directories and the COMMITs of databases.
//
// In an ordinary build every function is the call it is named after, and nothing
// more. Built with the tag faultinject, the same functions count the effects of
// the process, from 1, and obey the environment, so that a test can break each
// step of an operation by its number and then ask whether what must hold still
// holds:
//
//	LM_FAULT=kill:N          SIGKILL to itself just before effect N
//	LM_FAULT=kill-after:N    SIGKILL to itself just after effect N
//	LM_FAULT=torn:N          write the first half of effect N's bytes, then SIGKILL;
//	                         kill:N when effect N is no write
//	LM_FAULT=error:N:ERRNO   effect N is not performed and fails with EIO, ENOSPC or EACCES
//	LM_FAULT=lost:N:ERRNO    effect N is performed and then fails all the same
//	LM_FAULT_OP=OP[,OP...]   count only these effects; the others are not traced either
//	LM_FAULT_TRACE=FILE      append "N OP LABEL" for each counted effect before it happens
//	LM_FAULT_ROOT=DIR        labels are relative to DIR; process ids, UUIDs and runs of
//	                         16 or more hexadecimal digits are written as *
//	LM_PAUSE=N:FILE          create FILE.reached and wait before effect N until FILE exists
//	LM_TEST_FSTYPE=0x6969    what FSType answers
//
// The operations are create, truncate, write, sync, rename, remove, mkdir,
// syncdir, link, chmod and commit. Reading, opening what exists and closing
// change nothing and are not counted.
package faultio
