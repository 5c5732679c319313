#include "core/libraries/cufile_abi.h"
#include "tests/core/libraries/abi/facts.h"

ds::abi::Facts ds::abi::cufile_of_ours() {
  return {
#include "tests/core/libraries/abi/cufile_facts.inl"
  };
}
