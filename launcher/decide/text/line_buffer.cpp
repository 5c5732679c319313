#include "launcher/decide/text/line_buffer.h"

#include "core/text/secrecy.h"

namespace ds {
namespace {

constexpr size_t kLongestLine = 64 << 10;

}  // namespace

void LineBuffer::feed(std::string_view bytes, const Sink& sink) {
  append_secret(rest_, bytes);  // agents are told secrets in lines
  size_t begin = 0;
  for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    sink(std::string_view(rest_).substr(begin, end - begin));
    begin = end + 1;
  }
  drop_front(rest_, begin);
  if (rest_.size() > kLongestLine) {
    finish(sink);
  }
}

void LineBuffer::finish(const Sink& sink) {
  if (!rest_.empty()) {
    sink(rest_);
    wipe(rest_);
  }
}

}  // namespace ds
