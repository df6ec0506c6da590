package gateway

const roleVariable = "GATEWAYD_TEST_ROLE"

func childMain(role string) int { return 1 }
