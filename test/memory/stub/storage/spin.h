/* spin.h -- see s_lock.h */
#include "storage/s_lock.h"
