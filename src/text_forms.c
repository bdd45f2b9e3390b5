/*-------------------------------------------------------------------------
 *
 * text_forms.c
 *	  Ids as short texts, for URLs and for people: base32, base58, base62.
 *
 * A text is the id's 64 bits, read as an unsigned number, in digits of the
 * form's own, the most significant first, and always as many as the greatest
 * such number needs: 13, 11 and 11.  That is what others write, too:
 *	- base32 is Douglas Crockford's ("Base 32", 2002), the digits of ULIDs;
 *	- base58 has the digits of Bitcoin's base58.h, and all of them, as in a
 *	  block of Monero's addresses.  An encoder that drops leading zeroes,
 *	  which are "1" here, or turns bytes rather than a number into digits, writes
 *	  the same from 58^10 on (the layout twitter passed that in 2014);
 *	- base62 has the digits of KSUIDs.
 * Each alphabet is in the order of ASCII.  With the fixed width it follows
 * that texts under COLLATE "C" sort as the ids do, from 0 up.
 *
 * Negative ids, which are never minted, have a text as well, and sort after
 * all others.  They cannot sort before them: what everybody reads as 0 is the
 * lowest text that there is.
 *
 * Reading is strict: the exact length, no blanks, no signs.  In base58 and
 * base62 an id has exactly one text.  In base32 lower case and the letters I,
 * L and O are read as Crockford says; his hyphens, which he would have us
 * ignore, and his check symbols are refused, as they would change the length.
 *
 * Nothing here has state: there is nothing to lock.  All up to the SQL
 * functions is pure and allocates nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"
#include "layout.h"

/*
 * Texts are written in "alphabet"; the alphabets of "read_too" are read as
 * well.  A digit's value is its place, so that the short alphabets, which are
 * for letters that look like a digit, name again what comes before.
 */
typedef struct TextForm
{
	const char *name;
	const char *last; /* the text of 2^64 - 1; all have its length */
	const char *alphabet;
	const char *read_too[6]; /* NULL after the last */
} TextForm;

static const TextForm base32 = {
	.name = "base32",
	.last = "FZZZZZZZZZZZZ",
	.alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
	.read_too = {"0123456789abcdefghjkmnpqrstvwxyz", "OI", "oi", "0L", "0l"},
};

static const TextForm base58 = {
	.name = "base58",
	.last = "jpXCZedGfVQ",
	.alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
};

static const TextForm base62 = {
	.name = "base62",
	.last = "LygHa16AHYF",
	.alphabet =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
};

/* What read_number() found. */
typedef enum TextFault
{
	TEXT_GOOD,
	TEXT_FOREIGN,  /* a character is not in the alphabet */
	TEXT_SHORT,	   /* characters are missing at the end */
	TEXT_LONG,	   /* characters are left over at the end */
	TEXT_TOO_GREAT /* the number has more than 64 bits */
} TextFault;

pg_noreturn static void report_text(const TextForm *form, TextFault fault,
									const char *text, size_t length, int at);

/* --- Numbers and digits ------------------------------------------------- */

static int
form_width(const TextForm *form)
{
	return (int) strlen(form->last);
}

/* The value of a digit; -1 if it is none. */
static int
digit_value(const TextForm *form, char digit)
{
	const char *alphabet = form->alphabet;

	for (int i = 0; alphabet != NULL; i++)
	{
		/* strchr(), which clang-tidy would have here, finds '\0' as well */
		/* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
		const char *place = memchr(alphabet, digit, strlen(alphabet));

		if (place != NULL)
			return (int) (place - alphabet);
		alphabet = form->read_too[i];
	}
	return -1;
}

/* Write form_width() digits, and no more. */
static void
write_number(const TextForm *form, uint64 number, char *text)
{
	uint64 base = strlen(form->alphabet);

	for (int i = form_width(form) - 1; i >= 0; i--)
	{
		text[i] = form->alphabet[number % base];
		number /= base;
	}
}

/*
 * Read a number, and tell the first thing that is wrong, from the left; *at
 * is its index.  As digits before it are all ASCII, it counts characters as
 * well as bytes, whatever the encoding.
 *
 * A number is too great where its digits first differ from those of the last
 * text and are after them; what it wraps around to is not used.
 */
static TextFault
read_number(const TextForm *form, const char *text, size_t length,
			uint64 *number, int *at)
{
	int	   width = form_width(form);
	uint64 base = strlen(form->alphabet);
	int	   order = 0; /* as of strcmp() with the last text */

	*number = 0;
	*at = 0;
	for (int i = 0; i < width; i++)
	{
		int digit = i < length ? digit_value(form, text[i]) : -1;

		if (order == 0 || digit < 0)
			*at = i;
		if (digit < 0)
			return i < length ? TEXT_FOREIGN : TEXT_SHORT;
		if (order == 0)
			order = digit - digit_value(form, form->last[i]);
		*number = *number * base + digit;
	}
	if (length > width)
	{
		*at = width;
		return TEXT_LONG;
	}
	return order > 0 ? TEXT_TOO_GREAT : TEXT_GOOD;
}

/* --- SQL functions ------------------------------------------------------ */

/* Quoted, or as the byte that it is or begins with. */
static void
describe_character(const char *character, char *buffer, size_t size)
{
	if (layout_quotable(character, character + 1) == 1)
		snprintf(buffer, size, "\"%c\"", *character);
	else
		snprintf(buffer, size, "byte 0x%02x", (unsigned char) *character);
}

static void
report_text(const TextForm *form, TextFault fault, const char *text,
			size_t length, int at)
{
	int	 quotable = layout_quotable(text, text + length);
	char culprit[16] = "";

	if (at < length)
		describe_character(text + at, culprit, sizeof(culprit));
	if (fault == TEXT_TOO_GREAT)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s text \"%.*s\" is out of range", form->name,
						quotable, text),
				 errdetail("Character %d, %s, takes it past \"%s\", the last "
						   "text of 64 bits.",
						   at + 1, culprit, form->last)));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid %s text \"%.*s\"", form->name, quotable, text),
			 fault == TEXT_SHORT ?
				 errdetail("Character %d is missing.", at + 1) :
				 errdetail("Character %d, %s, is %s.", at + 1, culprit,
						   fault == TEXT_LONG ? "past the end" :
												"not in the alphabet"),
			 errhint("A %s text is exactly %d characters of \"%s\".",
					 form->name, form_width(form), form->alphabet)));
}

static Datum
to_text(const TextForm *form, int64 id)
{
	text *result = palloc(VARHDRSZ + form_width(form));

	SET_VARSIZE(result, VARHDRSZ + form_width(form));
	write_number(form, (uint64) id, VARDATA(result));
	PG_RETURN_TEXT_P(result);
}

static Datum
from_text(const TextForm *form, text *arg)
{
	const char *start = VARDATA_ANY(arg);
	size_t		length = VARSIZE_ANY_EXHDR(arg);
	uint64		number;
	int			at;
	TextFault	fault = read_number(form, start, length, &number, &at);

	if (fault != TEXT_GOOD)
		report_text(form, fault, start, length, at);
	PG_RETURN_INT64((int64) number);
}

/* The functions of a form.  Its last line takes the caller's semicolon. */
#define TEXT_FORM_FUNCTIONS(form)                        \
	PG_FUNCTION_INFO_V1(snowflake_to_##form);            \
	Datum snowflake_to_##form(PG_FUNCTION_ARGS)          \
	{                                                    \
		return to_text(&(form), PG_GETARG_INT64(0));     \
	}                                                    \
	PG_FUNCTION_INFO_V1(snowflake_from_##form);          \
	Datum snowflake_from_##form(PG_FUNCTION_ARGS)        \
	{                                                    \
		return from_text(&(form), PG_GETARG_TEXT_PP(0)); \
	}                                                    \
	extern int no_such_variable

TEXT_FORM_FUNCTIONS(base32);
TEXT_FORM_FUNCTIONS(base58);
TEXT_FORM_FUNCTIONS(base62);
