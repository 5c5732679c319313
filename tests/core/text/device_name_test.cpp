#include "core/text/device_name.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

TEST_CASE("devices have the names that people give them", "[core]") {
  CHECK(device_named("cpu") == Device::cpu());
  CHECK(device_named("cuda") == Device::cuda(0));
  CHECK(device_named("cuda:0") == Device::cuda(0));
  CHECK(device_named("cuda:17") == Device::cuda(17));
  for (const char* const name :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "CPU", "cuda:99999999999", "meta"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(device_named(name), ConfigError);
  }
}

}  // namespace ds
