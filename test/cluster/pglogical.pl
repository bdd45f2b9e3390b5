# Four servers and one that gathers their rows, by pglogical.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use Test::More;

plan skip_all => 'to be written';
