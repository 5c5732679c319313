#include <cufile.h>

#include "tests/core/libraries/abi/facts.h"

ds::abi::Facts ds::abi::cufile_of_theirs() {
  return {
#include "tests/core/libraries/abi/cufile_facts.inl"
  };
}
