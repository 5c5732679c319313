// Nothing but the include: a source that CMake builds the shared precompiled header for.
// catch_main.cpp cannot be it, because it has to see Catch2 for the first time.
#include "tests/support/catch.h"
