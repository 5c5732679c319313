// Cuts a byte stream into lines (pure). A line longer than the limit comes in pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ds {

class LineBuffer {
 public:
  using Sink = std::function<void(std::string_view line)>;
  void feed(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);  // what is left without a newline

 private:
  std::string rest_;
};

}  // namespace ds
