// Messages of launcher and agents as lines of text (pure). The channel is somebody else's standard
// input and output: login shells print banners into it, and ssh, mpirun and srun pass it on in
// pieces of their own. So a message is cut into lines, each of which begins with a marker that is
// random per job (anything without it is text of the host), is short enough for srun to keep whole,
// and carries a checksum, so that a torn line is an error and never a wrong message. Refuses to
// know what the messages mean.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/decide/text/line_buffer.h"

namespace ds {

constexpr size_t kMarkerBytes = 16;

// The first line that an agent gets: tells it the marker. The agent's command line stays constant.
std::string greeting_line(std::string_view marker);
// The marker of a greeting. Throws UsageError for any other line: someone typed the command by
// hand.
std::string read_greeting(std::string_view line);

std::string encode_message(std::string_view marker, std::string_view message);

// Puts messages together again.
class MessageReader {
 public:
  using Sink = LineBuffer::Sink;

  explicit MessageReader(std::string marker) : marker_(std::move(marker)) {}

  // Whole messages go to `messages`, whatever else was printed to `text`, line by line. Throws
  // CommError when a line with the marker is torn or a message is too long.
  void feed(std::string_view bytes, const Sink& messages, const Sink& text);

 private:
  void take_line(std::string_view line, const Sink& messages, const Sink& text);
  void take_frame(std::string_view frame, const Sink& messages);

  const std::string marker_;
  LineBuffer lines_;
  std::string partial_;
  unsigned partial_lines_ = 0;
};

}  // namespace ds
