#include "offload/staged_buffer.h"

#include <exception>
#include <utility>

#include "core/status/error.h"

namespace ds {

void StagedBuffer::await(Swapper& swapper) {
  std::exception_ptr first;
  for (const SwapTicket ticket : std::exchange(under_way, {})) {
    try {
      swapper.wait(ticket);
    } catch (const IoTimeout&) {
      lease.abandon();  // the kernel may still move it
      first = std::current_exception();
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

void StagedBuffer::await_quietly(Swapper& swapper) noexcept {
  try {
    await(swapper);
  } catch (const std::exception&) {  // whoever comes to these bytes next is told
  }
}

}  // namespace ds
