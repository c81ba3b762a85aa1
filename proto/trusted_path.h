// Files whose contents decide whom Berth obeys, or who it is: nobody but root and the reader may be able to change them, neither in place
// nor by putting another under the name. `why` is a sentence with the path in front.
#pragma once

#include <string>

namespace berth {

// No directory on the way, symlinks followed, that others could rename things in: writable by group or others without the sticky bit.
bool trusted_directories(const std::string &path, std::string &why);

// A plain file of root's or the reader's own, in directories of theirs, writable by its owner alone. `secret`: nor readable by everybody.
bool trusted_file(const std::string &path, bool secret, std::string &why);

}  // namespace berth
