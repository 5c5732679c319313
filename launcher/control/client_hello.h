// The server name in the first bytes of a TLS connection (pure). It goes in clear and proves
// nothing: whoever sees a rank connect can repeat it. It tells only whom to hear first when many
// connect.
#pragma once

#include <string_view>

namespace ds {

struct ClientHello {
  enum class State {
    kIncomplete,  // it may become one
    kRead,
    kNone,  // no TLS, or a hello in pieces, which ours never are
  };
  State state = State::kNone;
  std::string_view server_name = {};  // within the bytes given; empty: it names none
};

// `bytes` from the beginning of the connection on.
ClientHello read_client_hello(std::string_view bytes);

}  // namespace ds
