#include "launcher/control/byte_channel.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/text/secrecy.h"

namespace ds {

PipeChannel::PipeChannel(Fd input, Fd output)
    : input_(std::move(input)), output_(std::move(output)) {
  fcntl(input_.get(), F_SETFL, fcntl(input_.get(), F_GETFL) | O_NONBLOCK);
}

void PipeChannel::add_poll_descriptors(std::vector<pollfd>& out) const {
  output_.add_poll_descriptor(out);
  if (input_.valid()) out.push_back({input_.get(), POLLIN, 0});
}

void PipeChannel::send(std::string_view bytes) {
  output_.push(bytes);
  output_.flush();  // what fails shows in pump()
}

bool PipeChannel::pump(const Sink& sink) {
  const bool has_reader = output_.flush();
  if (!has_reader) output_.close();
  std::array<char, 16384> bytes{};
  while (input_.valid()) {
    const ssize_t got = read(input_.get(), bytes.data(), bytes.size());
    if (got > 0) {
      sink({bytes.data(), static_cast<size_t>(got)});
      wipe(bytes);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      input_ = Fd();
    } else if (errno == EAGAIN) {
      break;
    }
  }
  return has_reader && input_.valid();
}

void PipeChannel::close() {
  output_.close();
  input_ = Fd();
}

}  // namespace ds
