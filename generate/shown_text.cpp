#include "generate/shown_text.h"

#include <algorithm>

#include "core/status/error.h"

namespace ds {
namespace {

// How many of the last bytes may be the beginning of a stop text.
size_t begun_stop(std::string_view text, const std::vector<std::string>& stops) {
  size_t most = 0;
  for (const std::string_view stop : stops) {
    for (size_t length = std::min(text.size(), stop.size() - 1); length > most; --length) {
      if (text.ends_with(stop.substr(0, length))) most = length;
    }
  }
  return most;
}

// How many of the last bytes are a character whose other bytes may still come.
size_t begun_character(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(3, text.size()); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if ((byte & 0xC0) == 0x80) continue;  // inside a character
    const size_t whole = byte >= 0xF0 && byte <= 0xF4 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    return byte <= 0xF4 && length < whole ? length : 0;
  }
  return 0;
}

}  // namespace

ShownText::ShownText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) DS_CHECK(!stop.empty(), "shown text: an empty stop text");
}

std::string ShownText::add(std::string_view bytes) {
  if (stopped_) return "";
  pending_ += bytes;
  size_t stop = std::string::npos;
  for (const std::string& text : stops_) stop = std::min(stop, pending_.find(text));
  if (stop != std::string::npos) {
    stopped_ = true;
    pending_.resize(stop);
    return finish();
  }
  size_t shown = pending_.size() - begun_stop(pending_, stops_);
  shown -= begun_character(std::string_view(pending_).substr(0, shown));
  std::string out = as_utf8(std::string_view(pending_).substr(0, shown));
  pending_.erase(0, shown);
  return out;
}

std::string ShownText::finish() {
  std::string out = as_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace ds
