// Nothing but the include: a source that CMake builds the precompiled header for.
#include "core/precompiled/standard.h"
