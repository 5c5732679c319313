// Fuzzes the channel of launcher and agents: a message comes back as it was sent, however it is cut
// up and whatever a shell prints beside it; what others write into the channel is refused or passed
// on as text.
#include <algorithm>

#include "launcher/agents/agent_protocol.h"
#include "tests/fuzz/one_input.h"

namespace {

const std::string kMarker = "0123456789abcdef";

std::vector<std::string> read_in_pieces(std::string_view bytes, size_t piece) {
  std::vector<std::string> messages;
  ds::MessageReader reader(kMarker);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    reader.feed(
        bytes.substr(0, piece), [&](std::string_view message) { messages.emplace_back(message); },
        [](std::string_view) {});
  }
  return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = size_t{data[0]} + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ds::fuzz::expect_refusal_or_success([&] { ds::read_greeting(text); });
  ds::fuzz::expect_refusal_or_success([&] { read_in_pieces(text, piece); });
  ds::fuzz::expect_refusal_or_success([&] { read_in_pieces(kMarker + text, piece); });
  const std::string sent =
      "banner\n" + ds::encode_message(kMarker, text) + ds::encode_message(kMarker, "");
  if (read_in_pieces(sent, piece) != std::vector<std::string>{text, ""}) {
    throw ds::InternalError("a message is not what was sent");
  }
  return 0;
}
