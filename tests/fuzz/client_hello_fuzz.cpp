// Fuzzes the look at how a connection from the network begins; the name lies within the bytes.
#include "launcher/control/client_hello.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const ds::ClientHello hello = ds::read_client_hello(bytes);
  const std::string_view name = hello.server_name;
  if (!name.empty() &&
      (name.data() < bytes.data() || name.data() + name.size() > bytes.data() + bytes.size())) {
    throw ds::InternalError("a name from elsewhere");
  }
  return 0;
}
