// Package archtest holds the project's rules of construction as tests: who may
// import whom, who may change files, where a process may end, how large a function
// may grow. Each rule stands in a table in policy_test.go with its reason.
//
// A test that fails here is seldom a reason to change the table.
package archtest
