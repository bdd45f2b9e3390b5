# One word for one thing: no file of the project says a word that has another one
# in the table of CONTRIBUTING.md, "Style of words".  That table is for people;
# here it is as patterns, with the places where the other word is right: the
# server's own terms, statements, and names of programs.
#
# Needs no server.
#
# Majors: one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Find;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my $top = "$FindBin::RealBin/../..";

# Blanks in a pattern stand for blanks and line ends.
my @words = (
	{
		say => 'clone',
		not => [
			qr/\btwins?\b/i,
			qr/\b(?:an?|the|this|that|no|every|its|is|as|for|accept\w*|refuses?|tells) (?:\w+ )?cop(?:y|ies)\b/i,
			qr/\bcop(?:y|ies) of (?:an?|the|its|another|this) (?:\w+ )?(?:server|original|data directory|machine)\b/i,
			qr/\b(?:is_copy|SnowflakeCopy|horizon_copy|AS copy)\b/,
			qr/^ *- copy:/m,
		],
		but => [
			qr/\b(?:in|on|from|into|it is|make|made|uses|with) (?:an?|the) (?:\w+ )?copy\b(?! of (?:an?|the|its|another) (?:server|original))/,    # of files
			qr/\bcopy of (?:the|its|what) (?:tree|source|source tree|file|installation|is installed)\b/,
			qr/\bCOPY\b|\bas copy:/,
			qr/`twins`|\btwins\.(?:pl|sql)\b/,    # a step's name
		],
		not_in => qr{^(?:test|bench)/[^/]*\.sh$|^\.ci/run$|^test/hard/twins},    # these work in a copy of the tree
	},
	{ say => 'held', not => [qr/\bheld_tick\b|\bHeldWait\b|\bheld\.[ch]\b/], but => [] },
	{ say => 'place', not => [qr/\bRingPlace\b|\bplace_(?:of|to)_\w+/], but => [] },
	{
		say => 'server',
		not => [qr/\bclusters?\b/i],
		but => [
			qr/PostgreSQL::Test::Cluster/,
			qr/\b(?:Patroni|standby|Citus|Kubernetes|Docker|database|etcd)(?:'s?)? clusters?\b/i,
			qr/\bDebian(?:'s own)? clusters?\b|\bcreates? (?:and starts? )?a cluster\b/,     # pg_createcluster
			qr/\bcreate_main_cluster\b|[\w-]*-cluster\b|\bcluster_name\b/,
			qr/\bkind: Cluster\b|^ *cluster:$/m,    # CloudNativePG's
		],
		not_in => qr{^(?:doc/availability\.md|doc/citus\.md|test/integration/|test/[^/]*\.sh$)},    # Patroni's, Citus'; a step's name
	},
	{
		say => 'exhausted',
		not => [qr/\bfull\b/i, qr/\w(?<=[a-z])Full\b/, qr/\bend of (?:the )?sequence\b/],
		but => [
			qr/\bdisks? (?:is |are |was |being )?full\b|\bfull disks?\b|\bslow, full or broken\b|\bdisk slow, full\b/i,
			qr/#the-disk-is-full\b/,
			qr/\bat full speed\b|\bin full\b|\bfull stop\b|\bfull barriers?\b|\bfull text\b/,
			qr/\bfull[ -]pages?\b|\bfull_page|\bpage(?: \w+)? (?:may be|is) full\b|\bfull page image/,
			qr/\bfull (?:run|incremental|backup|report|snapshot)\b|\(full, incremental|'full'|\bor full\b|\|full\b|\$full\b|=full\b|== full\b|\bfull => /,
			qr/\bFULL(?: OUTER)? JOIN\b|\bREPLICA IDENTITY FULL\b|\bVACUUM FULL\b|\w_full\b/,
			qr/\bto the full\b/,
		],
	},
	{
		say => 'expires',
		not => [qr/\b(?:runs?|ran|running) out\b/i, qr/\blayout(?:'s)? ends?\b/, qr/\bend of (?:the|its) layout\b/],
		but => [],
	},
	{
		say => 'renew',
		not => [
			qr/\b(?:keep|kept|keeping|mov(?:e|ed|ing)|stor(?:e|ed|ing))s? (?:the|its|a) horizon\b/i,
			qr/\bhorizon (?:is|was|be|has been|cannot be|could not be|has to be) (?:kept|moved|stored)\b/,
		],
		but => [],
	},
	{
		say => 'sequence number',
		not => [qr/\b(?:shards?|ticks?) (?:and|or) (?:an? |the )?sequence\b(?! numbers?|[:`_(])/],
		but => [],
	},
	{
		say => 'encode, decode',
		not => [qr/\bcodecs?\b/i],
		but => [qr/\bCodec:/],    # a field of pgx
	},
	{
		say => 'again, new',
		not => [qr/\banew\b/i],
		but => [],
	},
);

# The pattern with its blanks made wide.
sub wide
{
	my ($pattern) = @_;
	return map { qr/$_/ } "$pattern" =~ s/(?<!\[)(?<!\[\^) (?![\]*])/\\s+/gr;
}

for my $word (@words)
{
	$word->{$_} = [ map { wide($_) } @{ $word->{$_} } ] for 'not', 'but';
}

# A file without what is not ours to word, and without what begins the lines of a
# comment.  The line ends stay, so that lines can be counted.
sub words_of
{
	my ($path) = @_;
	my $text = slurp_file("$top/$path");

	$text =~ s/^\| say \| for \| not \|\n(?:\|.*\n)+/"\n" x ($& =~ tr|\n||)/me;
	$text =~ s/\]\([^)\s]*\)/]/g if $path =~ /\.md$/;    # a link repeats its heading
	$text =~ s{^[ \t]*(?:--|#+|\*|//|/\*)(?=[ \t])}{}mg;
	return $text;
}

# Where it says the word, each with its line.
sub places
{
	my ($word, $path, $text) = @_;
	my @places;

	return if $word->{not_in} && $path =~ $word->{not_in};
	for my $right (@{ $word->{but} })
	{
		$text =~ s/$right/"\n" x ($& =~ tr|\n||)/ge;
	}
	for my $wrong (@{ $word->{not} })
	{
		while ($text =~ /$wrong/g)
		{
			my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
			push @places, "$path:$line: " . ($& =~ s/\s+/ /gr);
		}
	}
	return @places;
}

my %text_of;
find(
	{
		no_chdir => 1,
		wanted => sub {
			my $path = $File::Find::name =~ s/^\Q$top\E\/?//r;

			# what is made from the tree, and texts of others
			$File::Find::prune = 1
			  if $path =~ m{^(?:\.git|results|output_iso|tmp_check|tmp_check_iso|log|.*/node_modules|debian/\.debhelper|debian/postgresql-.*|build-.*|bench/results)$};
			return if $path =~ m{^(?:LICENSE|debian/copyright|test/t/047_words\.pl)$};
			$text_of{$path} = words_of($path)
			  if -f && $path =~ m{\.(?:md|c|h|sql|out|spec|pl|pm|sh|py|js|java|conf|ya?ml|json|pml|control|svg|html|in)$|/(?:rules|run|Makefile|Dockerfile)$|^(?:Makefile|Dockerfile)$};
		},
	},
	$top);

cmp_ok(scalar(keys %text_of), '>', 150, 'there are files to read');
for my $word (@words)
{
	is(join("\n", map { places($word, $_, $text_of{$_}) } sort keys %text_of), '', "one word for one thing: $word->{say}");
}

# --- A word that stands in the table for people has a pattern here.
my ($table) = page_text('CONTRIBUTING.md') =~ /^\| say \| for \| not \|\n((?:\|.*\n)+)/m;
my @says = $table =~ /^\| (\w[\w ]*?) \|/mg;
is_deeply([ grep { my $say = $_; !grep { $_->{say} eq $say } @words } @says ], [], 'each word of the table in CONTRIBUTING.md is looked for');

# --- The patterns find what they are for, and only that.
my @wrong = (
	[ 'clone', 'on a copy of another server' ],
	[ 'clone', "not everybody can accept a\n# copy" ],
	[ 'clone', '@twins' ],
	[ 'server', "the layout of the\n-- cluster" ],
	[ 'exhausted', 'a call finds a tick full' ],
	[ 'exhausted', 'SnowflakeShardFull' ],
	[ 'expires', "when the timestamp has run out" =~ s/run/ran/r ],
	[ 'renew', 'The worker keeps the horizon' ],
	[ 'sequence number', 'of a time, a shard and a sequence' ],
	[ 'held', 'int64 held_tick;' ],
	[ 'place', 'place_of_shard(own, shard)' ],);
my @right = (
	[ 'clone', 'works in a copy of the tree; COPY is the statement' ],
	[ 'server', "initdb makes a database cluster, Citus'\ncluster" ],
	[ 'exhausted', 'with a full disk, at full speed' ],);

for (@wrong, @right)
{
	my ($say, $text) = @$_;
	my ($word) = grep { $_->{say} eq $say } @words;
	my $is_wrong = grep { $_->[1] eq $text } @wrong;

	$text =~ s{^# |^-- }{}mg;
	is(scalar(my @found = places($word, 'a line', $text)) > 0 ? 'found' : 'not found', $is_wrong ? 'found' : 'not found', $text =~ s/\s+/ /gr);
}

done_testing();
