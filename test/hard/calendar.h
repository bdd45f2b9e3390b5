/*
 * calendar.h -- the C library's calendar in place of the server's, for programs
 * that include src/layout_text.c and link without a server
 */
#ifndef HARD_CALENDAR_H
#define HARD_CALENDAR_H

#include <time.h>

const int day_tab[2][13] = {
	{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0},
	{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0}};

int
date2j(int year, int month, int day)
{
	struct tm date = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};

	return (int) (timegm(&date) / SECS_PER_DAY) + UNIX_EPOCH_JDATE;
}

void
j2date(int julian_day, int *year, int *month, int *day)
{
	time_t	  seconds = ((time_t) julian_day - UNIX_EPOCH_JDATE) * SECS_PER_DAY;
	struct tm date;

	gmtime_r(&seconds, &date);
	*year = date.tm_year + 1900;
	*month = date.tm_mon + 1;
	*day = date.tm_mday;
}

#endif /* HARD_CALENDAR_H */
