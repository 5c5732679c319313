// What the user sees: lines, errors, and on a terminal one live line that is rewritten in place.
// A console that nobody reads loses text and never an error: printing must not end training.
#pragma once

#include <string>
#include <string_view>

namespace ds {

class Console {
 public:
  struct Options {
    int line_fd = 1;       // plain lines; --json moves them to standard error
    bool live = false;     // standard error is a terminal
    bool colour = false;   // and NO_COLOR is not set
  };
  static Options detect(bool no_colour);

  explicit Console(const Options& options) : options_(options) {}
  Console(const Console&) = delete;  // one writer of the terminal
  Console& operator=(const Console&) = delete;
  ~Console() { clear_live(); }

  bool live() const { return options_.live; }
  void line(std::string_view text);
  void error(std::string_view text);                // "error: ..." on standard error
  void rank_output(int rank, std::string_view text);  // "[rank 3] ..." on standard error
  void raw_error(std::string_view text);            // a line for machines on standard error
  void set_live(std::string_view text);
  void clear_live();

 private:
  void print(int fd, std::string_view text);

  const Options options_;
  std::string live_text_;
};

}  // namespace ds
