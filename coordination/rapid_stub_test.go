package coordination_test

import _ "pgregory.net/rapid"
