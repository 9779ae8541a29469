package coordination_test

const childVariable = "COORDINATION_CHILD"

func runChild() int { return 0 }
