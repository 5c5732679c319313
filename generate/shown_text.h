// What of a generated text may be shown so far (pure): whole UTF-8 characters only, and nothing
// that may yet turn out to be the beginning of a stop text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/text/utf8.h"

namespace ds {

class ShownText {
 public:
  // The text ends before the first of `stops` that comes, none of them empty.
  explicit ShownText(std::vector<std::string> stops);

  // The bytes of one more token; returns what can be shown now. Nothing after a stop text.
  std::string add(std::string_view bytes);
  // No more will come: what was held back. Bytes that are no characters are shown as U+FFFD.
  std::string finish();
  bool has_stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace ds
