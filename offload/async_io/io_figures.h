// What asynchronous I/O did so far.
#pragma once

#include <cstdint>

namespace ds {

struct IoFigures {
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t blocks = 0;
  int64_t continued = 0;      // short transfers whose rest was asked for again
  int64_t tried_again = 0;    // blocks that failed with EIO once
  int64_t bytes_bounced = 0;  // through memory of AsyncIo's own

  IoFigures& operator+=(const IoFigures& other) {
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    blocks += other.blocks;
    continued += other.continued;
    tried_again += other.tried_again;
    bytes_bounced += other.bytes_bounced;
    return *this;
  }
};

}  // namespace ds
